/* D21, Q2, Q3: times in whole milliseconds, on a machine made for it: a GPU whose launches and
 * memory cost nothing. */
#include "base/json.h"
#include "base/memory.h"
#include "cases/training.h"

#include <sys/stat.h>
#include <unistd.h>

static const char *const device_text =
    "{\"name\":\"%s\",\"source\":\"no machine\",\"comment\":\"\",\"kind\":\"%s\","
    "\"memory_bytes\":1e12,\"runtime_bytes\":0,\"communicator_bytes\":0,"
    "\"memory_bytes_per_second\":1e17,\"flops_per_second\":{\"fp32\":%g},"
    "\"efficiency\":{\"source\":\"\",\"matmul\":1,\"convolution\":1,\"normalization\":1,"
    "\"pooling\":1,\"elementwise\":1,\"embedding\":1,\"loss\":1,\"optimizer\":1,\"memory\":1},"
    "\"kernel_seconds\":0,\"launch_seconds\":0,\"event_seconds\":0,\"graph_launch_seconds\":0,"
    "\"graph_node_seconds\":0,\"copy_seconds\":0%s}";

static const char *const node_text =
    "{\"name\":\"%s\",\"source\":\"no "
    "machine\",\"comment\":\"\",\"gpu\":\"slow\",\"host\":\"still\","
    "\"vertices\":[{\"name\":\"gpu0\",\"kind\":\"gpu\"},%s{\"name\":\"host\",\"kind\":\"host\"},"
    "{\"name\":\"cpu0\",\"kind\":\"cpu\"}],\"links\":["
    "{\"a\":\"cpu0\",\"b\":\"host\",\"class\":\"memory\",\"bytes_per_second\":1e17,"
    "\"latency_seconds\":0},%s"
    "{\"a\":\"gpu0\",\"b\":\"cpu0\",\"class\":\"PCIe\",\"bytes_per_second\":1e17,"
    "\"latency_seconds\":0}]}";

static void write_text(const char *folder, const char *name, char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    FILE *file = fopen(path, "w");
    bool written = file && fputs(text, file) >= 0;
    if (file)
        fclose(file);
    free(text);
    case_require(written, "a platform file is written", __FILE__, __LINE__);
}

/* Devices and nodes in a scratch folder that is searched first: `pair` has two GPUs with a link
 * between them, `one` has one GPU. `measured` may give seconds of ops. */
static void make_platforms(char folder[32], double rate, double link_bytes_per_second,
                           const char *measured)
{
    static const char *const parts[] = {"devices", "nodes", "clusters"};
    const char *before = getenv("REHEARSE_PLATFORMS");
    char path[64];
    snprintf(folder, 32, "/tmp/rehearse-case-XXXXXX");
    case_require(mkdtemp(folder) != NULL, "a scratch folder", __FILE__, __LINE__);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, parts[i]);
        mkdir(path, 0700);
    }
    char *extra =
        text_format(",\"compute_capability\":70,\"multiprocessors\":80,\"workspace_bytes\":{"
                    "\"convolution\":0,\"matmul\":0},\"collective_compute_share\":0,"
                    "\"nvlink_bytes_per_second\":%g,\"nvlink_count\":1%s",
                    link_bytes_per_second, measured);
    snprintf(path, sizeof path, "%s/devices", folder);
    write_text(path, "slow", text_format(device_text, "slow", "gpu", rate, extra));
    free(extra);
    write_text(path, "still", text_format(device_text, "still", "host", rate, ",\"cores\":1"));
    char *links =
        text_format("{\"a\":\"gpu0\",\"b\":\"gpu1\",\"class\":\"NVLink\",\"bytes_per_second\":%g,"
                    "\"latency_seconds\":0},{\"a\":\"gpu1\",\"b\":\"cpu0\",\"class\":\"PCIe\","
                    "\"bytes_per_second\":1e17,\"latency_seconds\":0},",
                    link_bytes_per_second);
    snprintf(path, sizeof path, "%s/nodes", folder);
    write_text(path, "pair",
               text_format(node_text, "pair", "{\"name\":\"gpu1\",\"kind\":\"gpu\"},", links));
    write_text(path, "one", text_format(node_text, "one", "", ""));
    free(links);
    char *search = text_format("%s:%s", folder, before ? before : "platforms");
    setenv("REHEARSE_PLATFORMS", search, 1);
    free(search);
}

static void remove_platforms(const char *folder)
{
    static const char *const files[] = {"devices/slow.json", "devices/still.json",
                                        "nodes/pair.json",   "nodes/one.json",
                                        "devices",           "nodes",
                                        "clusters",          ""};
    char path[128];
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        remove(path);
    }
    setenv("REHEARSE_PLATFORMS", strchr(getenv("REHEARSE_PLATFORMS"), ':') + 1, 1);
}

/* Milliseconds from the first start of a span whose name begins with `from` to the last end of one
 * that begins with `to`, in a step. */
static double span_ms(const char *experiment_json, int step, const char *from, const char *to)
{
    struct platform *platform = NULL;
    struct experiment *experiment = NULL;
    struct outcome outcome;
    struct run_options options = {.trace = true};
    cJSON *json = NULL;
    double start = INFINITY;
    double end = -INFINITY;
    CHECK_OK(json_read_text("case", experiment_json, &json));
    CHECK_OK(platform_open(&platform));
    CHECK_OK(experiment_open(platform, json, &experiment));
    CHECK_OK(experiment_run(experiment, &options, &outcome));
    for (int i = 0; i < outcome.result.span_count; i++) {
        const struct span *span = &outcome.result.spans[i];
        if (span->step != step)
            continue;
        if (strncmp(span->name, from, strlen(from)) == 0)
            start = fmin(start, span->start_seconds);
        if (strncmp(span->name, to, strlen(to)) == 0)
            end = fmax(end, span->end_seconds);
    }
    outcome_free(&outcome);
    experiment_close(experiment);
    platform_close(platform);
    return 1e3 * (end - start);
}

/* Two layers by hand on two GPUs; the forward of `pieces` pieces of 10 rows. */
static double hand_pipeline_ms(int pieces, int inner, int out, double link_bytes_per_second)
{
    char folder[32];
    if (!case_has_times())
        case_skip("needs the simulator");
    make_platforms(folder, 1e9, link_bytes_per_second, "");
    char *text = text_format(
        "{\"model\":{\"name\":\"m\",\"input\":[100],\"layers\":[{\"name\":\"a\",\"op\":\"linear\","
        "\"out\":%d,\"bias\":false},{\"name\":\"b\",\"op\":\"linear\",\"out\":%d,\"bias\":false}]},"
        "\"data\":{\"batch\":%d},\"train\":{\"loss\":\"mse\"},\"cluster\":{\"node\":\"pair\","
        "\"nodes\":1},\"devices\":2,\"launch\":\"graph\",\"strategy\":{\"type\":\"pipeline\","
        "\"split_size\":10,\"split_at\":[\"b\"]}}",
        inner, out, 10 * pieces);
    double ms = span_ms(text, 1, "forward", "forward");
    free(text);
    remove_platforms(folder);
    return ms;
}

CASE(Q2, "T1 = 2, T2 = 3, c = 0.5: 23 for six pieces in lock-step, 5.5 for one")
{
    CHECK_NEAR(hand_pipeline_ms(6, 1000, 150, 8e7), 23, 1e-3);
    CHECK_NEAR(hand_pipeline_ms(1, 1000, 150, 8e7), 5.5, 1e-3);
}

CASE(Q3, "T1 = T2 = 1, c = 0, six pieces: 7")
{
    CHECK_NEAR(hand_pipeline_ms(6, 500, 100, 1e17), 7, 1e-3);
}

/* Three layers of 2 Mi weights; a gradient of weights takes 1 ms, one of inputs nothing. */
static double overlap_ms(int step, const char *ddp)
{
    static const char *const measured =
        ",\"measured\":["
        "{\"op\":\"linear_weight_grad fp32: (1,2048) (1,1024) -> (2048,1024)\",\"seconds\":1e-3},"
        "{\"op\":\"linear_weight_grad fp32: (1,1024) (1,2048) -> (1024,2048)\",\"seconds\":1e-3},"
        "{\"op\":\"linear_input_grad fp32: (1,2048) (2048,1024) -> (1,1024)\",\"seconds\":0},"
        "{\"op\":\"linear_input_grad fp32: (1,1024) (1024,2048) -> (1,2048)\",\"seconds\":0}]";
    char folder[32];
    if (!case_has_times())
        case_skip("needs the simulator");
    make_platforms(folder, 1e17, 1e17, measured);
    char *text = text_format(
        "{\"model\":{\"name\":\"m\",\"input\":[1024],\"layers\":["
        "{\"name\":\"a\",\"op\":\"linear\",\"out\":2048,\"bias\":false},"
        "{\"name\":\"b\",\"op\":\"linear\",\"out\":1024,\"bias\":false},"
        "{\"name\":\"c\",\"op\":\"linear\",\"out\":2048,\"bias\":false}]},\"data\":{\"batch\":2},"
        "\"train\":{\"loss\":\"mse\"},\"cluster\":{\"node\":\"one\",\"nodes\":2,\"fabric\":{"
        "\"type\":"
        "\"ring\",\"link_bytes_per_second\":8388608000,\"latency_seconds\":0},\"collectives\":"
        "\"links\"},\"devices\":2,\"launch\":\"graph\",\"strategy\":{\"type\":\"ddp\",\"ddp\":{%s}}"
        "}",
        ddp);
    double ms = span_ms(text, step, "backward", "bucket");
    free(text);
    remove_platforms(folder);
    return ms;
}

CASE(D21,
     "three layers of 1 ms and 8 MiB each: 6 ms in the first step, then 5, with small buckets 4")
{
    CHECK_NEAR(overlap_ms(0, ""), 6, 1e-2);
    CHECK_NEAR(overlap_ms(1, ""), 5, 1e-2);
    CHECK_NEAR(overlap_ms(1, "\"bucket_cap_mb\":8"), 4, 1e-2);
}
