/* SimGrid's own XML as a cluster. It is read here only to list the hosts that are GPUs: those whose
 * element has <prop id="device" value="NAME"/>, in the order of the file; a <cluster> with that
 * property is all its hosts. Each is a node of its own; links and routes stay SimGrid's. */
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "platform/private.h"

enum { MOST_HOSTS = 1 << 20, DEEPEST = 200 };

struct host_list {
    struct platform *platform;
    char **hosts;
    const struct node_model **nodes;
    int host_count, host_capacity, node_count, node_capacity;
};

static char *attribute(const xmlNode *element, const char *name)
{
    return (char *)xmlGetNoNsProp((xmlNode *)(uintptr_t)element, (const xmlChar *)name);
}

static bool is_named(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0;
}

/* The value of the element's own property `device`, freed with xmlFree; NULL: none. */
static char *device_property(const xmlNode *element)
{
    for (const xmlNode *child = element->children; child; child = child->next) {
        if (!is_named(child, "prop"))
            continue;
        char *id = attribute(child, "id");
        bool is_device = id && strcmp(id, "device") == 0;
        xmlFree(id);
        if (is_device)
            return attribute(child, "value");
    }
    return NULL;
}

/* A node of one GPU of that model, made once per model. */
static enum rh_status single_node(struct platform *p, const char *device,
                                  const struct node_model **node)
{
    char key[512];
    snprintf(key, sizeof key, "host with %s", device);
    for (int i = 0; i < p->node_key_count; i++) {
        if (strcmp(p->node_keys[i], key) == 0) {
            *node = &p->nodes[i]->model;
            return RH_OK;
        }
    }
    const struct device_model *gpu = NULL;
    const struct device_model *host = NULL;
    RETURN_IF_FAILED(platform_device(p, device, &gpu));
    RETURN_IF_FAILED(platform_device(p, "generic-host", &host));
    if (gpu->host)
        return fail(RH_INVALID, "device '%s' is a host, not a GPU", device);
    struct node_record *made = node_new(key, "a host of a SimGrid file");
    made->model.host = host;
    int at = node_add_gpu(made, "gpu0", gpu);
    int memory = node_add_vertex(made, VERTEX_HOST, "host");
    int cpu = node_add_vertex(made, VERTEX_CPU, "cpu0");
    node_add_link(made, at, cpu, LINK_PCIE, 12e9, PCIE_LATENCY, 1); /* NCCL's gen3 x16 */
    node_add_link(made, cpu, memory, LINK_MEMORY, host->memory_bytes_per_second, MEMORY_LATENCY, 1);
    enum rh_status status = node_finish(made, key);
    if (status != RH_OK) {
        node_free(made);
        return status;
    }
    platform_keep_node(p, key, made);
    *node = &made->model;
    return RH_OK;
}

static enum rh_status add_host(struct host_list *list, char *name, const char *device)
{
    *ARRAY_ADD(list->hosts, list->host_count, list->host_capacity) = name;
    const struct node_model **node = ARRAY_ADD(list->nodes, list->node_count, list->node_capacity);
    if (list->host_count > MOST_HOSTS)
        return fail(RH_INVALID, "more than %d hosts are GPUs", MOST_HOSTS);
    enum rh_status status = single_node(list->platform, device, node);
    return status == RH_OK ? status : fail_within(status, "host '%s'", name);
}

/* "0-3,8": the numbers of a cluster's hosts. */
static enum rh_status add_radical(struct host_list *list, const char *prefix, const char *radical,
                                  const char *suffix, const char *device)
{
    for (const char *c = radical; *c;) {
        char *end = NULL;
        long first = strtol(c, &end, 10);
        long last = first;
        bool fine = end != c;
        if (fine && *end == '-') {
            const char *start = end + 1;
            last = strtol(start, &end, 10);
            fine = end != start;
        }
        if (!fine || first < 0 || last < first || last - first >= MOST_HOSTS ||
            (*end && *end != ','))
            return fail(RH_INVALID, "radical \"%s\" is not a list like 0-15,20", radical);
        for (long i = first; i <= last; i++)
            RETURN_IF_FAILED(add_host(list, text_format("%s%ld%s", prefix, i, suffix), device));
        c = *end ? end + 1 : end;
    }
    return RH_OK;
}

static enum rh_status read_element(struct host_list *list, const xmlNode *element,
                                   const char *device)
{
    if (is_named(element, "host")) {
        char *id = attribute(element, "id");
        if (!id)
            return fail(RH_INVALID, "line %ld: a host without 'id'", xmlGetLineNo(element));
        enum rh_status status = add_host(list, text_copy(id), device);
        xmlFree(id);
        return status;
    }
    char *prefix = attribute(element, "prefix");
    char *suffix = attribute(element, "suffix");
    char *radical = attribute(element, "radical");
    enum rh_status status =
        prefix && suffix && radical
            ? add_radical(list, prefix, radical, suffix, device)
            : fail(RH_INVALID, "line %ld: a cluster without 'prefix', 'suffix' or 'radical'",
                   xmlGetLineNo(element));
    xmlFree(prefix);
    xmlFree(suffix);
    xmlFree(radical);
    return status;
}

static enum rh_status read_zone(struct host_list *list, const xmlNode *zone, int depth)
{
    if (depth > DEEPEST)
        return fail(RH_INVALID, "zones are nested more than %d deep", DEEPEST);
    for (const xmlNode *child = zone->children; child; child = child->next) {
        if (child->type != XML_ELEMENT_NODE)
            continue;
        if (!is_named(child, "host") && !is_named(child, "cluster")) {
            RETURN_IF_FAILED(read_zone(list, child, depth + 1));
            continue;
        }
        char *device = device_property(child);
        enum rh_status status = device ? read_element(list, child, device) : RH_OK;
        xmlFree(device);
        RETURN_IF_FAILED(status);
    }
    return RH_OK;
}

static enum rh_status read_file(struct host_list *list, const char *path)
{
    const struct located file = {(char *)(uintptr_t)path, (char *)(uintptr_t)path};
    char *text = NULL;
    uint64_t hash = 0;
    RETURN_IF_FAILED(platform_read_text(list->platform, &file, &text, &hash));
    xmlParserCtxt *context = xmlNewParserCtxt();
    xmlDoc *document = xmlCtxtReadMemory(context, text, (int)strlen(text), path, NULL,
                                         XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    enum rh_status status = RH_OK;
    if (!document) {
        const xmlError *error = xmlCtxtGetLastError(context);
        status = fail(RH_INVALID, "not XML: line %d: %.*s", error ? error->line : 0,
                      error && error->message ? (int)strcspn(error->message, "\n") : 0,
                      error && error->message ? error->message : "");
    } else if (!is_named(xmlDocGetRootElement(document), "platform")) {
        status = fail(RH_INVALID, "the outer element is '%s', not SimGrid's 'platform'",
                      (const char *)xmlDocGetRootElement(document)->name);
    } else {
        status = read_zone(list, xmlDocGetRootElement(document), 0);
    }
    if (status == RH_OK && !list->host_count)
        status =
            fail(RH_INVALID, "no host is a GPU: none has <prop id=\"device\" value=\"NAME\"/> with "
                             "the name of a device file");
    xmlFreeDoc(document);
    xmlFreeParserCtxt(context);
    free(text);
    return status;
}

enum rh_status cluster_open_native(struct platform *p, const char *path, int devices_wanted,
                                   struct cluster **cluster)
{
    struct host_list list = {.platform = p};
    enum rh_status status = read_file(&list, path);
    if (status == RH_OK && list.host_count < devices_wanted)
        status = fail(RH_INVALID, "%d devices are asked for; the file has %d hosts that are GPUs",
                      devices_wanted, list.host_count);
    struct cluster *c = memory_new(sizeof *c);
    c->private = memory_new(sizeof *c->private);
    c->private->platform = p;
    const char *slash = strrchr(path, '/');
    c->name = text_copy(slash ? slash + 1 : path);
    c->native_path = text_copy(path);
    c->native_hosts = list.hosts;
    c->nodes = list.nodes;
    c->node_count = list.host_count;
    c->fabric = FABRIC_NONE;
    c->oversubscription = 1;
    c->leaf_nodes = 1;
    c->gpu_count = list.host_count; /* so that cluster_free frees the names */
    if (status == RH_OK)
        status = cluster_number(c, path);
    if (status != RH_OK) {
        fail_within(status, "cluster '%s'", path);
        cluster_free(c);
        c = NULL;
    }
    *cluster = c;
    return status;
}
