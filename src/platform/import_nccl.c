/* An NCCL topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE) to a node, as NCCL 2.28 reads it
 * (src/graph/xml.cc, topo.cc): CPUs, PCIe switches, GPUs, NICs and NVLinks with its bandwidths. */
#include <errno.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "platform/import.h"
#include "platform/import_xml.h"

enum rh_status xml_number(const xmlNode *element, const char *name, long base, long *value)
{
    char *text = xml_text(element, name);
    if (!text)
        return RH_OK;
    char *end = NULL;
    errno = 0;
    long number = strtol(text, &end, (int)base);
    enum rh_status status = RH_OK;
    if (end == text || *end || errno || number > 1000000000 || number < -1000000000)
        status = fail(RH_INVALID, "line %ld: %s=\"%s\" of <%s> is not a number",
                      xmlGetLineNo(element), name, text, (const char *)element->name);
    else
        *value = number;
    free(text);
    return status;
}

char *xml_text(const xmlNode *element, const char *name)
{
    xmlChar *value = xmlGetNoNsProp((xmlNode *)(uintptr_t)element, (const xmlChar *)name);
    char *text = value ? text_copy((const char *)value) : NULL;
    xmlFree(value);
    return text;
}

bool xml_is(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0;
}

const xmlNode *xml_child(const xmlNode *element, const char *name)
{
    for (const xmlNode *child = element->children; child; child = child->next)
        if (xml_is(child, name))
            return child;
    return NULL;
}

/* GB/s = lanes x code / 80, code 15, 30, 60 … for 2.5, 5, 8 … GT/s; unknown is 8 GT/s, 16 lanes. */
enum rh_status xml_pcie_rate(const xmlNode *pci, double *rate)
{
    static const struct {
        double transfers; /* GT/s */
        int code;
    } speeds[] = {{2.5, 15}, {5, 30}, {8, 60}, {16, 120}, {32, 240}, {64, 480}};
    char *text = xml_text(pci, "link_speed");
    double transfers = text ? strtod(text, NULL) : 0;
    free(text);
    long lanes = 0;
    RETURN_IF_FAILED(xml_number(pci, "link_width", 10, &lanes));
    if (lanes < 0 || lanes > 64)
        return fail(RH_INVALID, "line %ld: link_width=\"%ld\"; at most 64 lanes", xmlGetLineNo(pci),
                    lanes);
    int code = 60;
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
        if (transfers == speeds[i].transfers)
            code = speeds[i].code;
    *rate = (double)(lanes ? lanes : 16) * code / 80 * 1e9;
    return RH_OK;
}

/* Between sockets, by maker and model of the CPU; 10 GB/s where the file does not tell. */
static enum rh_status socket_rate(const xmlNode *cpu, double *rate)
{
    char *arch = xml_text(cpu, "arch");
    char *vendor = xml_text(cpu, "vendor");
    long model = -1;
    enum rh_status status = xml_number(cpu, "modelid", 10, &model);
    *rate = 10e9;
    if (arch && strcmp(arch, "arm64") == 0)
        *rate = 6e9;
    else if (arch && strcmp(arch, "ppc64") == 0)
        *rate = 32e9;
    else if (vendor && strcmp(vendor, "AuthenticAMD") == 0)
        *rate = 16e9;
    else if (vendor && strcmp(vendor, "GenuineIntel") == 0 && model >= 0)
        *rate = model >= 0xCF ? 40e9 : model >= 0x8F ? 22e9 : model >= 0x55 ? 10e9 : 6e9;
    free(arch);
    free(vendor);
    return status;
}

static enum rh_status import_document(const struct import *import, const xmlNode *root,
                                      struct xml_topology *topology)
{
    if (!xml_is(root, "system"))
        return fail(RH_INVALID, "the outer element is <%s>, not NCCL's <system>",
                    (const char *)root->name);
    int cpu_count = 0;
    const xmlNode *first = NULL;
    for (const xmlNode *child = root->children; child; child = child->next) {
        if (!xml_is(child, "cpu"))
            continue;
        first = first ? first : child;
        cpu_count++;
    }
    if (!cpu_count)
        return fail(RH_INVALID, "<system> has no <cpu>");
    RETURN_IF_FAILED(xml_collect(root, topology));
    RETURN_IF_FAILED(xml_find_device(import, topology));
    double rate = 0;
    RETURN_IF_FAILED(socket_rate(first, &rate));
    return xml_build(import, root, cpu_count, rate, topology);
}

enum rh_status import_nccl(const struct import *import, const char *text, struct node_record **node)
{
    xmlParserCtxt *context = xmlNewParserCtxt();
    xmlDoc *document = xmlCtxtReadMemory(context, text, (int)strlen(text), "topology", NULL,
                                         XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    struct xml_topology topology = {0};
    enum rh_status status = RH_OK;
    if (!document) {
        const xmlError *error = xmlCtxtGetLastError(context);
        const char *message = error && error->message ? error->message : "";
        status = fail(RH_INVALID, "not XML: line %d: %.*s", error ? error->line : 0,
                      (int)strcspn(message, "\n"), message);
    } else {
        status = import_document(import, xmlDocGetRootElement(document), &topology);
    }
    xmlFreeDoc(document);
    xmlFreeParserCtxt(context);
    if (status != RH_OK) {
        node_free(topology.node);
        topology.node = NULL;
    }
    *node = topology.node;
    xml_topology_free(&topology);
    return status;
}
