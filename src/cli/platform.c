#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/cli.h"
#include "platform/detect.h"
#include "platform/platform.h"
#include "report/report.h"

static void print_node(const struct node_model *node)
{
    printf("node %s: %d GPUs\n", node->name, node->gpu_count);
    if (node->source)
        printf("  source: %s\n", node->source);
    for (int i = 0; i < node->gpu_count; i++)
        printf("  gpu%d  %s\n", i, node->devices[i]->name);
    printf("  host  %s\n", node->host->name);
    for (int i = 0; i < node->link_count; i++) {
        const struct link *link = &node->links[i];
        printf("  %-10s %-10s %-8s x%-2d %7.1f GB/s %6.2f us\n", node->vertices[link->a].name,
               node->vertices[link->b].name, link_class_name(link->class), link->count,
               link->bytes_per_second / 1e9, link->latency_seconds * 1e6);
    }
}

static void print_device(const struct device_model *device)
{
    printf("device %s: %.1f GiB at %.0f GB/s\n", device->name, device->memory_bytes / 1073741824,
           device->memory_bytes_per_second / 1e9);
    if (device->source)
        printf("  source: %s\n", device->source);
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (device->flops_per_second[t] > 0)
            printf("  %-5s %8.1f TFLOP/s\n", dtype_name((enum dtype)t),
                   device->flops_per_second[t] / 1e12);
    for (int c = 0; c < OP_CLASS_VIEW; c++)
        printf("  efficiency %-14s %.2f\n", op_class_name((enum op_class)c), device->efficiency[c]);
}

static void print_cluster(struct cluster *cluster)
{
    static const char *const fabrics[] = {"none", "fat tree", "ring"};
    printf("cluster %s: %d nodes, %d GPUs, fabric %s", cluster->name, cluster->node_count,
           cluster->gpu_count, fabrics[cluster->fabric]);
    if (cluster->fabric != FABRIC_NONE)
        printf(", ports %.1f GB/s %.2f us, oversubscription %g",
               cluster->port_bytes_per_second / 1e9, cluster->port_latency_seconds * 1e6,
               cluster->oversubscription);
    printf("\n");
    for (int n = 0; n < cluster->node_count; n++)
        if (n == 0 || cluster->nodes[n] != cluster->nodes[n - 1])
            print_node(cluster->nodes[n]);
}

static enum rh_status list_names(struct platform *platform)
{
    static const char *const titles[] = {"devices", "nodes", "clusters"};
    for (int kind = PLATFORM_DEVICE; kind <= PLATFORM_CLUSTER; kind++) {
        int count = 0;
        const char *const *names = platform_names(platform, (enum platform_kind)kind, &count);
        printf("%s:\n", titles[kind]);
        for (int i = 0; i < count; i++)
            printf("  %s\n", names[i]);
    }
    return RH_OK;
}

static bool is_known(struct platform *platform, enum platform_kind kind, const char *name)
{
    int count = 0;
    const char *const *names = platform_names(platform, kind, &count);
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* What a path holds: a node has vertices, a device a kind, a cluster neither. */
static bool file_has(const char *path, const char *key)
{
    cJSON *json = NULL;
    size_t length = strlen(path);
    bool is_json = length > 5 && strcmp(path + length - 5, ".json") == 0;
    if (!is_json || json_read_file(path, &json) != RH_OK)
        return false;
    bool has = cJSON_HasObjectItem(json, key);
    cJSON_Delete(json);
    return has;
}

static enum rh_status show(struct platform *platform, const char *name, int devices, bool quiet)
{
    if (is_known(platform, PLATFORM_DEVICE, name) || file_has(name, "kind")) {
        const struct device_model *device = NULL;
        RETURN_IF_FAILED(platform_device(platform, name, &device));
        if (!quiet)
            print_device(device);
        return RH_OK;
    }
    bool node_name =
        is_known(platform, PLATFORM_NODE, name) && !is_known(platform, PLATFORM_CLUSTER, name);
    if (node_name || file_has(name, "vertices")) {
        const struct node_model *node = NULL;
        RETURN_IF_FAILED(platform_node(platform, name, &node));
        if (!quiet)
            print_node(node);
        return RH_OK;
    }
    cJSON *json = cJSON_CreateString(name);
    struct cluster *cluster = NULL;
    enum rh_status status =
        cluster_open(platform, json, "platform", devices ? devices : 1, &cluster);
    cJSON_Delete(json);
    RETURN_IF_FAILED(status);
    if (!quiet)
        print_cluster(cluster);
    cluster_free(cluster);
    return RH_OK;
}

static enum rh_status import(struct platform *platform, const char *path, const char *gpu,
                             const char *name, const char *out)
{
    const struct node_model *node = NULL;
    RETURN_IF_FAILED(platform_import(platform, path, gpu, name, &node));
    cJSON *json = node_to_json(node);
    enum rh_status status = report_write_json(json, out ? out : "-");
    cJSON_Delete(json);
    return status;
}

/* Named after the machine, as far as its first dot. */
static enum rh_status detect(struct platform *platform, const char *gpu, const char *name,
                             const char *out)
{
    char host[65] = "";
    const struct node_model *node = NULL;
    struct detected *detected = memory_new(sizeof *detected);
    enum rh_status status = nvml_detect(detected);
    char *topology = status == RH_OK ? nccl_topology(detected->gpu_count) : NULL;
    if (status == RH_OK && !topology)
        fprintf(stderr, "rehearse: going on without NCCL's topology: %s\n", fail_message());
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        strcpy(host, "this-machine");
    host[strcspn(host, ".")] = '\0';
    if (status == RH_OK)
        status = detect_node(platform, detected, topology, gpu, name ? name : host, &node);
    free(topology);
    free(detected);
    RETURN_IF_FAILED(status);
    cJSON *json = node_to_json(node);
    status = report_write_json(json, out ? out : "-");
    cJSON_Delete(json);
    return status;
}

static enum rh_status check(struct platform *platform, const struct string_list *arguments)
{
    enum rh_status status = RH_OK;
    for (int i = 1; i < arguments->count && status == RH_OK; i++) {
        status = show(platform, arguments->items[i], 0, true);
        if (status == RH_OK)
            printf("%s: fine\n", arguments->items[i]);
    }
    return status;
}

static enum rh_status dispatch(struct platform *platform, const struct string_list *arguments,
                               const char *gpu, const char *name, const char *out, int devices)
{
    static const char *const verbs[] = {"import", "show", "check", "detect"};
    int verb = 0;
    RETURN_IF_FAILED(json_choice("platform verb", arguments->items[0], verbs, 4, &verb));
    if (verb == 3 && arguments->count > 1)
        return fail(RH_INVALID, "platform detect: '%s': no name or file is expected",
                    arguments->items[1]);
    if (verb == 3)
        return detect(platform, gpu, name, out);
    if (verb == 1 && arguments->count == 1)
        return list_names(platform);
    if (arguments->count < 2)
        return fail(RH_INVALID, "platform %s: a file or name is expected", verbs[verb]);
    if (verb == 0)
        return import(platform, arguments->items[1], gpu, name, out);
    if (verb == 1)
        return show(platform, arguments->items[1], devices, false);
    return check(platform, arguments);
}

/* "-o FILE" is "--o FILE" to options_read, which knows long options only. */
static enum rh_status run(int argc, char **argv)
{
    char **words = memory_new_array((size_t)argc + 1, sizeof *words);
    char long_o[] = "--o";
    for (int i = 0; i < argc; i++)
        words[i] = strcmp(argv[i], "-o") == 0 ? long_o : argv[i];
    struct string_list arguments = {0};
    const char *gpu = NULL;
    const char *name = NULL;
    const char *out = NULL;
    int devices = 0;
    const struct option options[] = {{"gpu", OPTION_STRING, &gpu},
                                     {"name", OPTION_STRING, &name},
                                     {"json", OPTION_STRING, &out},
                                     {"o", OPTION_STRING, &out},
                                     {"devices", OPTION_INTEGER, &devices}};
    struct platform *platform = NULL;
    enum rh_status status =
        options_read(&command_platform, argc, words, options, 5, &arguments, 1, 1000);
    if (status == RH_OK)
        status = platform_open(&platform);
    if (status == RH_OK)
        status = dispatch(platform, &arguments, gpu, name, out, devices);
    if (platform)
        platform_close(platform);
    list_free(&arguments, false);
    free(words);
    return status;
}

const struct command command_platform = {
    .name = "platform",
    .usage =
        "import FILE [--gpu DEVICE] [--name NAME] [--json FILE] | show [NAME|FILE] [--devices N] "
        "| check NAME|FILE… | detect [--gpu DEVICE] [--name NAME] [-o FILE]",
    .summary = "import, show, check or detect devices, nodes and clusters",
    .help = "  import FILE    a `nvidia-smi topo -m` or -p2p matrix or an NCCL topology XML, as a "
            "node\n"
            "  show [NAME]    a device, node or cluster with its links; without a name, all names\n"
            "  check NAME…    read them and say what is wrong\n"
            "  detect         this machine as a node: NVIDIA's driver, and NCCL if it is here\n"
            "  --gpu DEVICE   the GPU model where the file does not tell\n"
            "  --name NAME    the new node's name\n"
            "  --json FILE, -o FILE\n"
            "                 where import and detect write ('-', the default: standard output)\n"
            "  --devices N    show a cluster with nodes for N GPUs\n",
    .run = run,
};
