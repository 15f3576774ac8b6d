/* Imports of nvidia-smi matrices, NCCL topology XML and SimGrid's own XML: the recorded files,
 * exact facts of several, and one clear error for each kind of damage. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "platform/platform.h"
#include "unit.h"

static struct platform *open_platform(void)
{
    struct platform *p = NULL;
    setenv("REHEARSE_PLATFORMS", unit_source("platforms"), 1);
    CU_ASSERT_EQUAL_FATAL(platform_open(&p), RH_OK);
    return p;
}

static const struct node_model *import_shared(struct platform *p, const char *file,
                                              const char *device)
{
    const struct node_model *node = NULL;
    char *path = text_format("%s/reference/%s", unit_shared(), file);
    if (platform_import(p, path, device, NULL, &node) != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    free(path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(node);
    return node;
}

/* A temporary file with that text; the caller unlinks and frees the name. */
static char *write_file(const char *text, const char *suffix)
{
    char *path = text_format("/tmp/rehearse-import-XXXXXX%s", suffix);
    int handle = mkstemps(path, (int)strlen(suffix));
    CU_ASSERT_TRUE_FATAL(handle >= 0);
    CU_ASSERT_EQUAL(write(handle, text, strlen(text)), (ssize_t)strlen(text));
    close(handle);
    return path;
}

static const struct node_model *import_text(struct platform *p, const char *text,
                                            const char *device)
{
    const struct node_model *node = NULL;
    char *path = write_file(text, ".txt");
    (void)platform_import(p, path, device, "made", &node);
    unlink(path);
    free(path);
    return node;
}

static void refuses(const char *text, const char *device, const char *part)
{
    struct platform *p = open_platform();
    CU_ASSERT_PTR_NULL(import_text(p, text, device));
    UNIT_ASSERT_CONTAINS(fail_message(), part);
    platform_close(p);
}

static const struct link *find_link(const struct node_model *node, const char *a, const char *b)
{
    for (int i = 0; i < node->link_count; i++) {
        const char *one = node->vertices[node->links[i].a].name;
        const char *other = node->vertices[node->links[i].b].name;
        if ((strcmp(one, a) == 0 && strcmp(other, b) == 0) ||
            (strcmp(one, b) == 0 && strcmp(other, a) == 0))
            return &node->links[i];
    }
    return NULL;
}

static int count_kind(const struct node_model *node, enum vertex_kind kind)
{
    int count = 0;
    for (int i = 0; i < node->vertex_count; i++)
        count += node->vertices[i].kind == kind;
    return count;
}

/* Writes a node as a file, reads it back and compares the JSON. */
static void check_round_trip(struct platform *p, const struct node_model *node)
{
    cJSON *json = node_to_json(node);
    char *text = cJSON_Print(json);
    char *path = write_file(text, ".json");
    const struct node_model *again = NULL;
    if (platform_node(p, path, &again) != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    CU_ASSERT_PTR_NOT_NULL_FATAL(again);
    cJSON *json_again = node_to_json(again);
    char *text_again = cJSON_Print(json_again);
    CU_ASSERT_STRING_EQUAL(text, text_again);
    CU_ASSERT_EQUAL(node->host_vertex, again->host_vertex);
    CU_ASSERT_EQUAL(node->gpu_count, again->gpu_count);
    for (int i = 0; i < node->gpu_count; i++) {
        CU_ASSERT_PTR_EQUAL(node->devices[i], again->devices[i]);
        CU_ASSERT_EQUAL(node->gpu_vertex[i], again->gpu_vertex[i]);
    }
    for (int i = 0; i < node->link_count; i++)
        CU_ASSERT_EQUAL(node->links[i].bytes_per_second, again->links[i].bytes_per_second);
    unlink(path);
    cJSON_Delete(json);
    cJSON_Delete(json_again);
    free(text);
    free(text_again);
    free(path);
}

/* Routes between all GPUs, as the only node of a cluster. */
static void check_usable(struct platform *p, const struct node_model *node)
{
    cJSON *json = node_to_json(node);
    char *text = cJSON_Print(json);
    char *path = write_file(text, ".json");
    cJSON *name = cJSON_CreateString(path);
    struct cluster *c = NULL;
    struct route route;
    CU_ASSERT_EQUAL_FATAL(cluster_open(p, name, "test", 1, &c), RH_OK);
    for (int i = 0; i < c->gpu_count; i++)
        for (int j = 0; j < c->gpu_count; j++)
            CU_ASSERT_TRUE(cluster_route(c, i, j, 0, &route) == RH_OK &&
                           (i == j || route.count > 0));
    cluster_free(c);
    unlink(path);
    cJSON_Delete(name);
    cJSON_Delete(json);
    free(path);
    free(text);
}

struct expected {
    const char *file, *device;
    int gpus, nics, cpus;
    int nvlinks; /* between GPU 0 and 1; -1: NVSwitch */
};

static const struct expected expected[] = {
    {"nvidia-smi-topo/2gpu_nv1_gpu_numa_id.txt", "rtx-3090", 2, 0, 1, 1},
    {"nvidia-smi-topo/2gpu_nvlink_nv2.txt", "rtx-3090", 2, 0, 1, 2},
    {"nvidia-smi-topo/2gpu_pcie_phb.txt", "rtx-4090", 2, 0, 1, 0},
    {"nvidia-smi-topo/2xa100_nv12_two_numa.txt", NULL, 2, 0, 2, 12},
    {"nvidia-smi-topo/4gpu_nv12_no_affinity.txt", NULL, 4, 0, 1, -1},
    {"nvidia-smi-topo/4gpu_nv1_pairs_synthetic.txt", "a40", 4, 0, 2, 1},
    {"nvidia-smi-topo/4gpu_phb_gpu_numa_id.txt", "a40", 4, 0, 1, 0},
    {"nvidia-smi-topo/4xa100_pcie_sxm_nv4_mlx.txt", NULL, 4, 1, 2, 4},
    {"nvidia-smi-topo/4xl40s_dual_socket.txt", "rtx-4090", 4, 0, 2, 0},
    {"nvidia-smi-topo/4xtitanx_2nic_dual_socket.txt", "gtx-1080", 4, 2, 2, 0},
    {"nvidia-smi-topo/8xa100_10nic_amd.txt", NULL, 8, 10, 5, -1},
    {"nvidia-smi-topo/8xa100_nvswitch.txt", NULL, 8, 0, 2, -1},
    {"nvidia-smi-topo/8xh100_nvswitch.txt", NULL, 8, 0, 2, -1},
    {"nvidia-smi-topo/8xh100_smt_affinity.txt", NULL, 8, 0, 2, -1},
    {"nvidia-smi-topo/8xv100_node_affinity_split_header.txt", NULL, 8, 0, 1, 2},
    {"nvidia-smi-topo/dgx1v_nic_pytorch_ddp.txt", NULL, 8, 4, 2, 1},
    {"nvidia-smi-topo/h100_4gpu_oci_style_nic.txt", NULL, 4, 4, 1, -1},
    {"nvidia-smi-topo/p2p_r_2xl4_cns.txt", "rtx-4090", 2, 0, 1, 0},
    {"nvidia-smi-topo/p2p_r_8xh100.txt", "h100-sxm5-80gb", 8, 0, 1, 0},
    {"nccl-topo/aws-g5.48xl-topo.xml", "a40", 8, 1, 2, 0},
    {"nccl-topo/aws-p4d-24xl-topo.xml", "a100-sxm4-40gb", 8, 4, 2, -1},
    {"nccl-topo/azure-ndv2-topo.xml", "v100-sxm2-32gb", 8, 1, 2, 0},
    {"nccl-topo/azure-ndv4-topo.xml", "a100-sxm4-40gb", 8, 8, 4, -1},
    {"nccl-topo/azure-ndv5-topo.xml", "h100-sxm5-80gb", 8, 8, 2, -1},
    {"nccl-topo/oci-a100-gm4-topo-flattened.xml", "a100-sxm4-80gb", 8, 8, 4, -1},
    {"nccl-topo/oci-a100-b4-topo-flattened.xml", "a100-sxm4-40gb", 8, 8, 4, -1},
    {"nccl-topo/oci-h100-topology.xml", NULL, 8, 16, 2, -1},
    {"nccl-topo/dump-proteus-1080_1ib-4gpu.xml", NULL, 4, 1, 1, 0},
    {"nccl-topo/dump-proteus-1080_1ib-8gpu.xml", NULL, 8, 1, 2, 0},
    {"nccl-topo/dump-proteus-dgx1_v100_1ib-8gpu.xml", NULL, 8, 1, 2, 1},
    {"nccl-topo/dump-proteus-dgx1_v100_2ib-4gpu.xml", NULL, 4, 2, 2, 1},
    {"nccl-topo/dump-proteus-dgx1_v100_2ib-8gpu.xml", NULL, 8, 2, 2, 1},
};
enum { EXPECTED = (int)(sizeof expected / sizeof *expected) };

static void test_every_file(void)
{
    for (int i = 0; i < EXPECTED; i++) {
        const struct expected *e = &expected[i];
        struct platform *p = open_platform();
        const struct node_model *node = import_shared(p, e->file, e->device);
        if (node->gpu_count != e->gpus || count_kind(node, VERTEX_NIC) != e->nics ||
            count_kind(node, VERTEX_CPU) != e->cpus || node_nvlinks(node, 0, 1) != e->nvlinks)
            fprintf(stderr, "    %s: %d GPUs, %d NICs, %d CPUs, %d NVLinks\n", e->file,
                    node->gpu_count, count_kind(node, VERTEX_NIC), count_kind(node, VERTEX_CPU),
                    node_nvlinks(node, 0, 1));
        CU_ASSERT_EQUAL(node->gpu_count, e->gpus);
        CU_ASSERT_EQUAL(count_kind(node, VERTEX_NIC), e->nics);
        CU_ASSERT_EQUAL(count_kind(node, VERTEX_CPU), e->cpus);
        CU_ASSERT_EQUAL(node_nvlinks(node, 0, 1), e->nvlinks);
        check_round_trip(p, node);
        check_usable(p, node);
        platform_close(p);
    }
}

/* No recorded file may be forgotten in the table above. */
static void test_all_are_listed(void)
{
    static const char *const folders[] = {"nvidia-smi-topo", "nccl-topo"};
    for (int f = 0; f < 2; f++) {
        char *path = text_format("%s/reference/%s", unit_shared(), folders[f]);
        DIR *folder = opendir(path);
        free(path);
        CU_ASSERT_PTR_NOT_NULL_FATAL(folder);
        for (struct dirent *entry; (entry = readdir(folder));) {
            if (entry->d_name[0] == '.' || strcmp(entry->d_name, "index.json") == 0)
                continue;
            char *name = text_format("%s/%s", folders[f], entry->d_name);
            bool listed = false;
            for (int i = 0; i < EXPECTED && !listed; i++)
                listed = strcmp(expected[i].file, name) == 0;
            if (!listed)
                fprintf(stderr, "    %s is not tested\n", name);
            CU_ASSERT_TRUE(listed);
            free(name);
        }
        closedir(folder);
    }
}

static void test_pytorch_host(void)
{
    struct platform *p = open_platform();
    const struct node_model *node =
        import_shared(p, "nvidia-smi-topo/dgx1v_nic_pytorch_ddp.txt", "v100-sxm2-32gb");
    const struct node_model *file = NULL;
    static const int nvlinks[8][8] = {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0},
                                      {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
                                      {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                                      {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            CU_ASSERT_EQUAL(node_nvlinks(node, i, j), nvlinks[i][j]);
    CU_ASSERT_EQUAL(find_link(node, "gpu0", "gpu4")->bytes_per_second, 40e9);
    CU_ASSERT_EQUAL(find_link(node, "gpu0", "gpu4")->count, 2);
    /* PIX: one switch with mlx5_0; PHB: the other switch of that CPU */
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "gpu1", "plx0"));
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "mlx5_0", "plx0"));
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "mlx5_1", "plx1"));
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "plx1", "cpu0"));
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "mlx5_2", "plx2"));
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "plx2", "cpu1"));
    CU_ASSERT_EQUAL(find_link(node, "cpu0", "cpu1")->bytes_per_second, 10e9);
    /* the platform of the repository is this import, with a host and a comment */
    CU_ASSERT_EQUAL_FATAL(platform_node(p, "dgx1v-pytorch-ddp", &file), RH_OK);
    CU_ASSERT_EQUAL_FATAL(file->link_count, node->link_count);
    CU_ASSERT_EQUAL_FATAL(file->vertex_count, node->vertex_count);
    for (int i = 0; i < node->vertex_count; i++)
        CU_ASSERT_STRING_EQUAL(file->vertices[i].name, node->vertices[i].name);
    for (int i = 0; i < node->link_count; i++) {
        CU_ASSERT_EQUAL(file->links[i].a, node->links[i].a);
        CU_ASSERT_EQUAL(file->links[i].b, node->links[i].b);
        CU_ASSERT_EQUAL(file->links[i].bytes_per_second, node->links[i].bytes_per_second);
    }
    platform_close(p);
}

static void test_facts(void)
{
    struct platform *p = open_platform();
    const struct node_model *node = import_shared(p, "nccl-topo/oci-h100-topology.xml", NULL);
    CU_ASSERT_STRING_EQUAL(node->devices[0]->name, "h100-sxm5-80gb");
    CU_ASSERT_EQUAL(find_link(node, "gpu3", "nvswitch")->count, 18);
    UNIT_ASSERT_NEAR(find_link(node, "gpu3", "nvswitch")->bytes_per_second, 370.8e9, 1e-12);
    CU_ASSERT_EQUAL(find_link(node, "gpu0", "plx0")->bytes_per_second, 48e9);
    CU_ASSERT_EQUAL(find_link(node, "plx0", "cpu0")->bytes_per_second, 48e9);
    CU_ASSERT_EQUAL(find_link(node, "cpu0", "cpu1")->bytes_per_second, 22e9);
    node = import_shared(p, "nccl-topo/dump-proteus-dgx1_v100_2ib-8gpu.xml", NULL);
    CU_ASSERT_STRING_EQUAL(node->devices[7]->name, "v100-sxm2-32gb");
    for (int i = 0; i < 8; i++) {
        int sum = 0;
        for (int j = 0; j < 8; j++)
            sum += node_nvlinks(node, i, j);
        CU_ASSERT_EQUAL(sum, 6);
    }
    CU_ASSERT_EQUAL(node_nvlinks(node, 0, 3), 2);
    node = import_shared(p, "nccl-topo/dump-proteus-1080_1ib-8gpu.xml", NULL);
    CU_ASSERT_STRING_EQUAL(node->devices[0]->name, "gtx-1080");
    CU_ASSERT_EQUAL(find_link(node, "cpu0", "cpu1")->bytes_per_second, 6e9); /* Broadwell */
    node = import_shared(p, "nccl-topo/azure-ndv4-topo.xml", "a100-sxm4-40gb");
    CU_ASSERT_EQUAL(find_link(node, "cpu1", "cpu3")->bytes_per_second, 16e9); /* AMD */
    CU_ASSERT_EQUAL(find_link(node, "gpu0", "plx0")->bytes_per_second, 24e9);
    node = import_shared(p, "nccl-topo/aws-p4d-24xl-topo.xml", "a100-sxm4-40gb");
    CU_ASSERT_EQUAL(find_link(node, "gpu7", "plx3")->bytes_per_second, 12e9); /* 8 GT/s */
    CU_ASSERT_PTR_NULL(strstr(node->source, "PCI classes"));
    UNIT_ASSERT_CONTAINS(node->source, "NICs' speed is not in the file");
    node = import_shared(p, "nccl-topo/aws-g5.48xl-topo.xml", "a40");
    UNIT_ASSERT_CONTAINS(node->source, "PCI classes are not in the file");
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "nic0", "cpu1"));
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "gpu3", "cpu0"));
    node = import_shared(p, "nccl-topo/dump-proteus-dgx1_v100_2ib-8gpu.xml", NULL);
    CU_ASSERT_PTR_NULL(strstr(node->source, "NICs' speed"));
    node = import_shared(p, "nvidia-smi-topo/p2p_r_2xl4_cns.txt", "rtx-4090");
    cJSON *json = node_to_json(node);
    CU_ASSERT_TRUE(cJSON_IsFalse(cJSON_GetObjectItem(json, "peer_access")));
    cJSON_Delete(json);
    node = import_shared(p, "nvidia-smi-topo/h100_4gpu_oci_style_nic.txt", NULL);
    UNIT_ASSERT_CONTAINS(node->source, "1 of the entries contradicts others");
    platform_close(p);
}

static void test_asks_for_gpu(void)
{
    struct platform *p = open_platform();
    for (int i = 0; i < EXPECTED; i++) {
        if (!expected[i].device)
            continue;
        const struct node_model *node = NULL;
        char *path = text_format("%s/reference/%s", unit_shared(), expected[i].file);
        CU_ASSERT_EQUAL(platform_import(p, path, NULL, NULL, &node), RH_INVALID);
        UNIT_ASSERT_CONTAINS(fail_message(), "--gpu");
        CU_ASSERT_EQUAL(platform_import(p, path, "a41", NULL, &node), RH_INVALID);
        UNIT_ASSERT_CONTAINS(fail_message(), "unknown device 'a41'");
        free(path);
    }
    platform_close(p);
}

#define HEADER "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity\n"

static void test_shapes_of_headers(void)
{
    struct platform *p = open_platform();
    const struct node_model *node = import_text(
        p,
        "$ nvidia-smi topo -m\n"
        "\033[4m\tGPU0\tGPU1\tNIC0\tCPU     Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\r\n"
        "GPU0\t X \tPXB\tPIX\t0-3\t0\t\tN/A\r\nGPU1\tPXB\t X \tPXB\t0-3\t0\t\tN/A\r\n"
        "  NIC0\tPIX\tPXB\t X \t\t\r\n\nLegend:\n\n  X    = Self\n  NV#  = bonded\n\n"
        "NIC Legend:\n\n  NIC0: mlx5_7\n",
        "a40");
    CU_ASSERT_PTR_NOT_NULL_FATAL(node);
    /* an upper switch, with GPU 0 and the NIC on one below it, GPU 1 on another */
    CU_ASSERT_EQUAL(count_kind(node, VERTEX_SWITCH), 3);
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "mlx5_7", "plx1"));
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "gpu0", "plx1"));
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "gpu1", "plx2"));
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "plx2", "plx0"));
    CU_ASSERT_PTR_NOT_NULL(find_link(node, "plx0", "cpu0"));
    check_round_trip(p, node);
    CU_ASSERT_PTR_NOT_NULL(import_text(p, "\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\n", "a40"));
    platform_close(p);
}

static void test_damaged_matrices(void)
{
    refuses("", "a40", "no header line");
    refuses("hello\nworld\n", "a40", "no header line");
    refuses(HEADER "GPU0\t X \tNV1\tPHB\nmlx5_0\tPHB\tPHB\t X \n", "a40", "row 'GPU1' is missing");
    refuses(HEADER "GPU0\t X \tNV1\n", "a40", "row 'GPU0' has 2 entries; there are 3 columns");
    refuses(HEADER "GPU0\t X \tNV1\tPHB\tPHB\n", "a40", "more entries than the 3 columns");
    refuses(HEADER "GPU0\t X \tNVx\tPHB\n", "a40", "row 'GPU0', column 'GPU1': 'NVx'");
    refuses(HEADER "GPU0\t X \tNV0\tPHB\n", "a40", "'NV0' is not an entry");
    refuses(HEADER "GPU0\tNV1\t X \tPHB\n", "a40", "X must be on the diagonal");
    refuses(HEADER "GPU0\t X \tNV1\tPHB\nGPU0\t X \tNV1\tPHB\n", "a40",
            "row 'GPU0' is given twice");
    refuses("\tGPU0\tGPU0\nGPU0\t X \tPHB\n", "a40", "column 'GPU0' is given twice");
    refuses(HEADER "GPU0\t X \tNV1\tPHB\nGPU1\tNV2\t X \tPHB\nmlx5_0\tPHB\tPHB\t X \n", "a40",
            "row 'GPU0', column 'GPU1' is 'NV1', but row 'GPU1', column 'GPU0' is 'NV2'");
    refuses(HEADER "GPU0\t X \tNV1\tPHB\nGPU1\tNV1\t X \tSYS\nmlx5_0\tPHB\tPHB\t X \n", "a40",
            "row 'GPU1', column 'mlx5_0' is 'SYS', but row 'mlx5_0', column 'GPU1' is 'PHB'");
    refuses("\tGPU0\tGPU1\nGPU0\t X \tOK\nGPU1\tPHB\t X \n", "a40", "of the other kind");
    refuses("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n", "rtx-4090",
            "'GPU0' has 4 NVLinks in the matrix; device 'rtx-4090' has 0");
    refuses("\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n", "generic-host",
            "is a host, not a GPU");
}

#define PCI(bus, inner)                                                                            \
    "<pci busid=\"" bus "\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\">" inner     \
    "</pci>"
#define GPU(number, inner) "<gpu dev=\"" number "\" sm=\"70\" rank=\"0\">" inner "</gpu>"
#define SYSTEM(inner) "<system version=\"1\"><cpu numaid=\"0\">" inner "</cpu></system>"

static void test_damaged_xml(void)
{
    refuses("<system version=\"1\"><cpu>", NULL, "not XML: line 1");
    refuses("<graphs/>", NULL, "the outer element is <graphs>");
    refuses("<system/>", NULL, "<system> has no <cpu>");
    refuses(SYSTEM(""), NULL, "no GPU");
    refuses(SYSTEM(PCI("1", GPU("0", "")) PCI("1", GPU("1", ""))), NULL,
            "busid '1' is given twice");
    refuses(SYSTEM(PCI("1", GPU("0", "")) PCI("2", GPU("0", ""))), NULL,
            "dev=\"0\" is given twice");
    refuses(SYSTEM(PCI("1", GPU("x", ""))), NULL, "dev=\"x\" of <gpu> is not a number");
    refuses(SYSTEM(PCI("1", GPU("0", "<nvlink target=\"2\" count=\"2\" tclass=\"0x030200\"/>")) PCI(
                "2", GPU("1", "<nvlink target=\"1\" count=\"1\" tclass=\"0x030200\"/>"))),
            NULL, "gpu 0 states 2 NVLinks to gpu 1, which states 1 back");
    refuses(SYSTEM(PCI("1", GPU("0", "<nvlink target=\"2\" count=\"-2\" tclass=\"0x030200\"/>"))),
            NULL, "nvlink count=\"-2\"");
    refuses(SYSTEM(PCI("1", "<gpu dev=\"0\" sm=\"89\"/>")), NULL, "sm=\"89\"); name their device");
    refuses(SYSTEM("<pci busid=\"1\" class=\"0x030200\"/>"), NULL, "with --gpu");
    /* an entity is not resolved and does not expand */
    refuses("<!DOCTYPE system [<!ENTITY x SYSTEM \"/etc/passwd\">]><system><cpu>&x;</cpu></system>",
            NULL, "no GPU");
}

#define NATIVE(inner)                                                                              \
    "<?xml version='1.0'?><!DOCTYPE platform SYSTEM "                                              \
    "\"https://simgrid.org/simgrid.dtd\"><platform version=\"4.1\"><zone id=\"world\" "            \
    "routing=\"Full\">" inner "</zone></platform>"

static struct cluster *open_native(struct platform *p, const char *text, int devices)
{
    char *path = write_file(text, ".xml");
    cJSON *name = cJSON_CreateString(path);
    struct cluster *c = NULL;
    (void)cluster_open(p, name, "test", devices, &c);
    cJSON_Delete(name);
    unlink(path);
    free(path);
    return c;
}

static void test_native(void)
{
    struct platform *p = open_platform();
    struct cluster *c = open_native(
        p,
        NATIVE(
            "<host id='login' speed='1Gf'/>"
            "<host id='a' speed='1Gf'><prop id='device' value='v100-sxm2-32gb'/></host>"
            "<zone id='in' routing='Full'><cluster id='c' prefix='n-' suffix='.x' radical='0-2,7' "
            "speed='1Gf' bw='1GBps' lat='1us'><prop id='device' value='rtx-3090'/></cluster>"
            "</zone><host id='z' speed='1Gf'><prop id='device' value='v100-sxm2-32gb'/></host>"),
        6);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    CU_ASSERT_EQUAL(c->gpu_count, 6);
    CU_ASSERT_EQUAL(c->node_count, 6);
    CU_ASSERT_STRING_EQUAL(c->native_hosts[0], "a");
    CU_ASSERT_STRING_EQUAL(c->native_hosts[1], "n-0.x");
    CU_ASSERT_STRING_EQUAL(c->native_hosts[4], "n-7.x");
    CU_ASSERT_STRING_EQUAL(c->native_hosts[5], "z");
    CU_ASSERT_STRING_EQUAL(cluster_device_model(c, 4)->name, "rtx-3090");
    CU_ASSERT_PTR_EQUAL(c->nodes[0], c->nodes[5]);
    CU_ASSERT_EQUAL(cluster_device_node(c, 5), 5);
    struct route route;
    CU_ASSERT_EQUAL(cluster_route(c, 0, 1, 0, &route), RH_INVALID);
    cluster_free(c);
    CU_ASSERT_PTR_NULL(open_native(p, NATIVE("<host id='a' speed='1Gf'/>"), 1));
    UNIT_ASSERT_CONTAINS(fail_message(), "<prop id=\"device\"");
    CU_ASSERT_PTR_NULL(open_native(
        p, NATIVE("<host id='a' speed='1'><prop id='device' value='v100-sxm2-32gb'/></host>"), 4));
    UNIT_ASSERT_CONTAINS(fail_message(), "4 devices are asked for; the file has 1 hosts");
    CU_ASSERT_PTR_NULL(open_native(
        p, NATIVE("<host id='a' speed='1'><prop id='device' value='v100'/></host>"), 1));
    UNIT_ASSERT_CONTAINS(fail_message(), "unknown device 'v100'");
    CU_ASSERT_PTR_NULL(open_native(p,
                                   NATIVE("<cluster prefix='' suffix='' radical='3-1'><prop "
                                          "id='device' value='a40'/></cluster>"),
                                   1));
    UNIT_ASSERT_CONTAINS(fail_message(), "radical \"3-1\"");
    CU_ASSERT_PTR_NULL(open_native(p, "<system/>", 1));
    UNIT_ASSERT_CONTAINS(fail_message(), "not SimGrid's 'platform'");
    CU_ASSERT_PTR_NULL(open_native(p, "<platform", 1));
    UNIT_ASSERT_CONTAINS(fail_message(), "not XML");
    platform_close(p);
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"every recorded file", test_every_file, unit_needs_shared},
        {"every recorded file is listed", test_all_are_listed, unit_needs_shared},
        {"the host of PyTorch's benchmark", test_pytorch_host, unit_needs_shared},
        {"facts of recorded files", test_facts, unit_needs_shared},
        {"unknown GPUs ask for --gpu", test_asks_for_gpu, unit_needs_shared},
        {"shapes of headers", test_shapes_of_headers, NULL},
        {"damaged matrices", test_damaged_matrices, NULL},
        {"damaged XML", test_damaged_xml, NULL},
        {"SimGrid's own XML", test_native, NULL},
    };
    return UNIT_MAIN("import", tests);
}
