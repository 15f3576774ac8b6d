#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "unit.h"

enum { GIB = 1024 * 1024 * 1024, DEVICES_MOST = 64 };

/* A run of ten steps on any number of devices, with everything that it points at. */
struct sample {
    struct report_case c;
    struct result result;
    struct device_result devices[DEVICES_MOST];
    char names[DEVICES_MOST][48];
    const char *name_pointers[DEVICES_MOST];
    double steps[10], losses[10];
    struct report_file files[1];
    cJSON *resolved;
};

static void fill_device(struct sample *s, int i)
{
    struct device_result *d = &s->devices[i];
    snprintf(s->names[i], sizeof s->names[i], "node%d:gpu%d (v100-32gb)", i / 8, i % 8);
    s->name_pointers[i] = s->names[i];
    *d = (struct device_result){
        .device = i,
        .capacity_bytes = 32.0 * GIB,
        .busy_seconds = 0.08,
        .communication_seconds = 0.03,
        .exposed_seconds = 0.015,
        .idle_seconds = 0.005,
    };
    d->peak_bytes[PURPOSE_PARAMETERS] = 0.5 * GIB;
    d->peak_bytes[PURPOSE_ACTIVATIONS] = 3.25 * GIB;
    d->work_seconds[WORK_FORWARD] = 0.03;
    d->work_seconds[WORK_BACKWARD] = 0.05;
}

static void sample_init(struct sample *s, int device_count)
{
    *s = (struct sample){0};
    for (int i = 0; i < device_count; i++)
        fill_device(s, i);
    for (int i = 0; i < 10; i++) {
        s->steps[i] = i ? 0.1 : 0.15;
        s->losses[i] = 2.5 - 0.125 * i;
    }
    s->files[0] = (struct report_file){"platforms/nodes/dgx1v.json", 0xabcdef};
    s->resolved = cJSON_Parse("{\"model\": {\"type\": \"resnet50\"}, \"data\": {\"batch\": 256}}");
    s->result = (struct result){
        .step_seconds = s->steps,
        .step_count = 10,
        .median_step_seconds = 0.1,
        .devices = s->devices,
        .device_count = device_count,
        .exposed_communication_seconds = 0.015,
        .bubble_fraction = 0.05,
        .waited_for = -1,
        .losses = s->losses,
        .network_settings = "CM02, network/TCP-gamma:0, network/crosstraffic:0",
    };
    s->result.link_class_bytes[LINK_NVLINK] = 1.5 * GIB;
    s->c = (struct report_case){
        .experiment = "resnet50-ddp",
        .model = "resnet50",
        .strategy = "ddp",
        .backend = "simgrid",
        .backend_version = "3.32",
        .launch = "eager",
        .precision = "fp32",
        .cluster = "dgx-1v",
        .batch_fixed = "batch_per_device",
        .batch = 256,
        .device_count = device_count,
        .accumulate = 1,
        .microbatches = 1,
        .buckets = 5,
        .resolved = s->resolved,
        .seed = UINT64_C(18446744073709551615),
        .files = s->files,
        .file_count = 1,
        .result = &s->result,
        .device_names = s->name_pointers,
        .samples_per_second = 2560,
        .speedup = 6.4,
        .efficiency = 0.8,
        .single_step_seconds = 0.08,
        .single_batch = 32,
        .compute_scale = 1,
        .flops_per_step = 3.2e12,
        .label = "dgx-1v ddp batch=64",
    };
}

static void sample_free(struct sample *s)
{
    cJSON_Delete(s->resolved);
}

static struct report_case failed_case(const char *label, double asked, double available)
{
    return (struct report_case){
        .experiment = "big",
        .label = label,
        .status = RH_OUT_OF_MEMORY,
        .asked_bytes = asked,
        .available_bytes = available,
        .error =
            "experiment 'big': does not fit on 'node0:gpu0': 40.1 GiB asked, 15.6 GiB available "
            "(0.4 GiB runtime); largest: conv1 1.0 GiB",
    };
}

/* What a report writes, as a string. */
static char *printed(const struct report_case *c)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    report_print(c, out);
    fclose(out);
    return text;
}

static char *listed(void (*list)(const struct report_case *, int, FILE *),
                    const struct report_case *cases, int count)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    list(cases, count, out);
    fclose(out);
    return text;
}

static int times_in(const char *text, const char *part)
{
    int count = 0;
    for (const char *p = text; (p = strstr(p, part)); p += strlen(part))
        count++;
    return count;
}

#define ASSERT_TEXT(text, expected)                                                                \
    do {                                                                                           \
        if (strcmp((text), (expected)) != 0)                                                       \
            fprintf(stderr, "--- got\n%s--- expected\n%s", (text), (expected));                    \
        CU_ASSERT_STRING_EQUAL((text), (expected));                                                \
    } while (0)

static void test_print(void)
{
    struct sample s;
    sample_init(&s, 2);
    s.result.waited_for = 1;
    s.devices[1].busy_seconds = 0.09;
    s.devices[1].idle_seconds = 0;
    s.devices[1].exposed_seconds = 0.01;
    s.devices[1].peak_bytes[PURPOSE_WORKSPACE] = 1024;
    s.result.folded = true;
    s.c.compute_scale = 1.25;
    char *text = printed(&s.c);
    ASSERT_TEXT(
        text,
        "resnet50-ddp\n"
        "  model       resnet50, fp32\n"
        "  strategy    ddp, 5 buckets\n"
        "  cluster     dgx-1v × 2 devices\n"
        "  backend     simgrid 3.32, eager launch\n"
        "  network     CM02, network/TCP-gamma:0, network/crosstraffic:0\n"
        "  batch       256 samples a step; the batch per device is held fixed\n"
        "  folded      nodes that do the same were simulated once\n"
        "\n"
        "  step time   100.000 ms, median of 9 steps after the first, which took 150.000 ms\n"
        "  rate        2560.0 samples/s\n"
        "  speed-up    6.40 × one device, which takes 80.000 ms for 32 samples; efficiency 80.0 %\n"
        "  exposed     15.000 ms of communication that nothing hides, 15.0 % of the step\n"
        "  bubble      5.0 % of the step with neither work nor communication\n"
        "  compute     32.0 TFLOP/s achieved, 16.0 TFLOP/s a device\n"
        "  slowest     node0:gpu1 (v100-32gb): the others wait for it\n"
        "  links       NVLink 1.5 GiB a step\n"
        "  losses      2.5, 2.375, 2.25 … 1.375 in step 10\n"
        "  anchor      compute seconds × 1.25, so that one device takes its measured time\n"
        "\n"
        "time of a step, ms, each v100-32gb\n"
        "  device        busy  forward  backward  transfers  exposed   idle\n"
        "  node0:gpu0  80.0 %   30.000    50.000     30.000   15.000  5.000\n"
        "  node0:gpu1  90.0 %   30.000    50.000     30.000   10.000      -\n"
        "\n"
        "peak memory, GiB, each v100-32gb\n"
        "  device      parameters  activations  workspace  total   free  capacity\n"
        "  node0:gpu0        0.50         3.25          -   3.75  28.25     32.00\n"
        "  node0:gpu1        0.50         3.25      <0.01   3.75  28.25     32.00\n");
    free(text);
    sample_free(&s);
}

static void test_print_long_settings(void)
{
    struct sample s;
    sample_init(&s, 1);
    s.result.network_settings =
        "network/model:CM02 network/TCP-gamma:0 network/crosstraffic:0 network/weight-S:0 "
        "network/latency-factor:1 network/bandwidth-factor:1";
    char *text = printed(&s.c);
    UNIT_ASSERT_CONTAINS(text, "network/weight-S:0\n              network/latency-factor:1 ");
    UNIT_ASSERT_CONTAINS(text, "32.0 TFLOP/s achieved\n");
    CU_ASSERT_PTR_NULL(strstr(text, "slowest"));
    CU_ASSERT_PTR_NULL(strstr(text, "anchor"));
    CU_ASSERT_PTR_NULL(strstr(text, "folded"));
    CU_ASSERT_PTR_NULL(strstr(text, " \n"));
    CU_ASSERT_PTR_NULL(strchr(text, '\x1b'));
    free(text);
    sample_free(&s);
}

static void test_group_equal(void)
{
    struct sample s;
    sample_init(&s, 64);
    for (int i = 1; i < 64; i += 2) /* pipeline stages alternate */
        s.devices[i].peak_bytes[PURPOSE_ACTIVATIONS] = GIB;
    s.devices[63].busy_seconds = 0.04;
    s.devices[63].idle_seconds = 0.045;
    snprintf(s.names[62], sizeof s.names[62], "node7:gpu6 (a40)");
    char *text = printed(&s.c);
    UNIT_ASSERT_CONTAINS(text,
                         "node0:gpu0 (v100-32gb)  80.0 %   30.000    50.000     30.000   15.000"
                         "   5.000  … 61 more like these\n");
    UNIT_ASSERT_CONTAINS(text, "node7:gpu6 (a40)        80.0 %");
    UNIT_ASSERT_CONTAINS(text, "node7:gpu7 (v100-32gb)  40.0 %");
    UNIT_ASSERT_CONTAINS(text, "3.75  28.25     32.00  … 30 more like these\n");
    UNIT_ASSERT_CONTAINS(text, "1.50  30.50     32.00  … 31 more like these\n");
    CU_ASSERT_EQUAL(times_in(text, ":gpu"), 6);
    free(text);
    sample_free(&s);
    sample_init(&s, 16); /* few enough to have a row each */
    text = printed(&s.c);
    CU_ASSERT_EQUAL(times_in(text, ":gpu"), 32);
    CU_ASSERT_PTR_NULL(strstr(text, "more like"));
    free(text);
    sample_free(&s);
}

static void test_group_extremes(void)
{
    struct sample s;
    sample_init(&s, 64);
    for (int i = 0; i < 64; i++) {
        s.devices[i].busy_seconds = 0.05 + 0.0001 * ((i * 37) % 64);
        s.devices[i].idle_seconds = 0.085 - s.devices[i].busy_seconds;
    }
    char *text = printed(&s.c);
    /* 37 i = 63 mod 64 at i = 19, 0 at i = 0 */
    UNIT_ASSERT_CONTAINS(text, "node2:gpu3  56.3 %");
    UNIT_ASSERT_CONTAINS(text, "28.700  busiest\n");
    UNIT_ASSERT_CONTAINS(text, "35.000  least busy\n");
    UNIT_ASSERT_CONTAINS(text, "  … 55 more, 55 different rows between these\n");
    UNIT_ASSERT_CONTAINS(text, "… 63 more like these\n"); /* memory is the same everywhere */
    free(text);
    sample_free(&s);
}

static void test_nothing_known(void)
{
    struct result empty = {.waited_for = -1};
    struct report_case c = {.result = &empty};
    struct report_case none = {0};
    char *text = printed(&c);
    UNIT_ASSERT_CONTAINS(text, "no step was run");
    CU_ASSERT_PTR_NULL(strstr(text, "nan"));
    CU_ASSERT_PTR_NULL(strstr(text, "inf"));
    free(text);
    text = printed(&none);
    UNIT_ASSERT_CONTAINS(text, "no result and no reason given");
    free(text);
    struct sample s;
    sample_init(&s, 1);
    s.result.median_step_seconds = NAN;
    s.result.bubble_fraction = NAN;
    s.c.samples_per_second = INFINITY;
    s.c.efficiency = s.c.speedup = NAN;
    s.devices[0].busy_seconds = NAN;
    s.losses[0] = NAN;
    text = printed(&s.c);
    CU_ASSERT_EQUAL(times_in(text, "nan"), 1); /* the loss: that is told */
    CU_ASSERT_PTR_NULL(strstr(text, "inf"));
    free(text);
    struct report_case both[] = {c, s.c};
    text = listed(report_table, both, 2);
    CU_ASSERT_PTR_NULL(strstr(text, "nan"));
    CU_ASSERT_PTR_NULL(strchr(text, '*'));
    free(text);
    text = listed(report_csv, both, 2);
    CU_ASSERT_EQUAL(times_in(text, "\n"), 3);
    CU_ASSERT_PTR_NULL(strstr(text, "nan"));
    CU_ASSERT_PTR_NULL(strstr(text, "inf"));
    free(text);
    cJSON *json = report_json(&s.c);
    CU_ASSERT_TRUE(cJSON_IsNull(cJSON_GetObjectItem(json, "step_seconds")));
    CU_ASSERT_TRUE(cJSON_IsNull(cJSON_GetObjectItem(json, "efficiency")));
    text = cJSON_Print(json);
    CU_ASSERT_PTR_NULL(strstr(text, "nan"));
    cJSON_free(text);
    cJSON_Delete(json);
    text = listed(report_table, NULL, 0);
    CU_ASSERT_EQUAL(times_in(text, "\n"), 1);
    free(text);
    sample_free(&s);
}

static void test_json(void)
{
    static const char *const keys[] = {
        "version",
        "experiment",
        "label",
        "status",
        "model",
        "strategy",
        "cluster",
        "device_count",
        "backend",
        "backend_version",
        "launch",
        "precision",
        "batch",
        "batch_fixed",
        "accumulate",
        "microbatches",
        "buckets",
        "compute_scale",
        "step_seconds",
        "steps",
        "samples_per_second",
        "speedup",
        "efficiency",
        "single_step_seconds",
        "single_batch",
        "bubble_fraction",
        "exposed_communication_seconds",
        "flops_per_step",
        "flops_per_second",
        "waited_for",
        "link_bytes",
        "losses",
        "folded",
        "devices",
        "network_settings",
        "seed",
        "platform_files",
        "resolved",
    };
    struct sample s;
    sample_init(&s, 2);
    s.result.waited_for = 1;
    s.steps[3] = 0.1 + 1e-9;
    cJSON *json = report_json(&s.c), *back;
    char *text = cJSON_Print(json);
    CU_ASSERT_EQUAL_FATAL(json_read_text("report", text, &back), RH_OK); /* no key twice */
    CU_ASSERT_EQUAL(json_check_keys(back, "report", keys, sizeof keys / sizeof *keys), RH_OK);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!cJSON_GetObjectItemCaseSensitive(back, keys[i])) {
            fprintf(stderr, "    key '%s' is missing\n", keys[i]);
            CU_FAIL("a key is missing");
        }
    UNIT_ASSERT_CONTAINS(text, "18446744073709551615");
    const cJSON *steps = cJSON_GetObjectItem(back, "steps");
    CU_ASSERT_EQUAL(cJSON_GetArraySize(steps), 10);
    CU_ASSERT_EQUAL(cJSON_GetArrayItem(steps, 3)->valuedouble, 0.1 + 1e-9);
    CU_ASSERT_EQUAL(cJSON_GetObjectItem(back, "status")->valuedouble, RH_OK);
    CU_ASSERT_STRING_EQUAL(cJSON_GetObjectItem(back, "waited_for")->valuestring, s.names[1]);
    CU_ASSERT_EQUAL(
        cJSON_GetObjectItem(cJSON_GetObjectItem(back, "link_bytes"), "NVLink")->valuedouble,
        1.5 * GIB);
    const cJSON *file = cJSON_GetArrayItem(cJSON_GetObjectItem(back, "platform_files"), 0);
    CU_ASSERT_STRING_EQUAL(cJSON_GetObjectItem(file, "hash")->valuestring, "0000000000abcdef");
    CU_ASSERT_TRUE(cJSON_Compare(cJSON_GetObjectItem(back, "resolved"), s.resolved, true));
    const cJSON *device = cJSON_GetArrayItem(cJSON_GetObjectItem(back, "devices"), 1);
    const cJSON *peak = cJSON_GetObjectItem(device, "peak_bytes");
    CU_ASSERT_EQUAL(cJSON_GetArraySize(peak), PURPOSE_COUNT);
    CU_ASSERT_EQUAL(cJSON_GetObjectItem(peak, "activations")->valuedouble, 3.25 * GIB);
    CU_ASSERT_EQUAL(cJSON_GetObjectItem(device, "free_bytes")->valuedouble, 28.25 * GIB);
    CU_ASSERT_EQUAL(cJSON_GetObjectItem(device, "busy_seconds")->valuedouble, 0.08);
    CU_ASSERT_EQUAL(
        cJSON_GetObjectItem(cJSON_GetObjectItem(device, "work_seconds"), "backward")->valuedouble,
        0.05);
    cJSON *again = report_json(&s.c);
    char *second = cJSON_Print(again);
    CU_ASSERT_STRING_EQUAL(text, second);
    cJSON_free(second);
    cJSON_free(text);
    cJSON_Delete(again);
    cJSON_Delete(back);
    cJSON_Delete(json);
    sample_free(&s);
}

/* A GPU that was measured says how far the prediction was. */
static void test_measured_memory(void)
{
    struct sample s;
    sample_init(&s, 1);
    char *text = printed(&s.c);
    CU_ASSERT_PTR_NULL(strstr(text, "GPU memory"));
    free(text);
    s.result.memory = (struct memory_result){9.0 * GIB, 1.0 * GIB, 10.1 * GIB, 140.0 * GIB, 1};
    text = printed(&s.c);
    UNIT_ASSERT_CONTAINS(text, "  GPU memory  10.0 GiB predicted (9.0 GiB of the plan, 1.0 GiB "
                               "runtime), 10.1 GiB measured, +1.00 %\n");
    free(text);
    cJSON *json = report_json(&s.c);
    const cJSON *memory = cJSON_GetObjectItem(json, "memory");
    CU_ASSERT_EQUAL(cJSON_GetObjectItem(memory, "predicted_bytes")->valuedouble, 10.0 * GIB);
    CU_ASSERT_EQUAL(cJSON_GetObjectItem(memory, "measured_bytes")->valuedouble, 10.1 * GIB);
    cJSON_Delete(json);
    sample_free(&s);
}

static void test_json_failed(void)
{
    struct report_case c = failed_case("a", 40.1 * GIB, 16.0 * GIB);
    cJSON *json = report_json(&c);
    CU_ASSERT_EQUAL(cJSON_GetObjectItem(json, "status")->valuedouble, RH_OUT_OF_MEMORY);
    UNIT_ASSERT_CONTAINS(cJSON_GetObjectItem(json, "error")->valuestring, "largest: conv1");
    CU_ASSERT_EQUAL(cJSON_GetObjectItem(json, "asked_bytes")->valuedouble, 40.1 * GIB);
    CU_ASSERT_PTR_NULL(cJSON_GetObjectItem(json, "step_seconds"));
    CU_ASSERT_PTR_NULL(cJSON_GetObjectItem(json, "devices"));
    CU_ASSERT_PTR_NOT_NULL(cJSON_GetObjectItem(json, "seed"));
    cJSON_Delete(json);
    c = (struct report_case){0}; /* no result is never a success */
    json = report_json(&c);
    CU_ASSERT_EQUAL(cJSON_GetObjectItem(json, "status")->valuedouble, RH_FAILED);
    cJSON_Delete(json);
}

static void test_failed_print(void)
{
    struct report_case c = failed_case("a", 40.1 * GIB, 16.0 * GIB);
    char *text = printed(&c);
    UNIT_ASSERT_CONTAINS(text,
                         "no result   does not fit: 40.1 of 16.0 GiB; experiment 'big': does");
    UNIT_ASSERT_CONTAINS(text, "conv1 1.0 GiB");
    CU_ASSERT_PTR_NULL(strstr(text, "peak memory"));
    free(text);
}

static void test_table(void)
{
    struct sample a, b;
    sample_init(&a, 2);
    sample_init(&b, 2);
    a.c.label = "dgx-1v single batch=64";
    a.c.samples_per_second = 400;
    a.c.speedup = a.c.efficiency = 0;
    a.result.median_step_seconds = 0.64;
    b.result.waited_for = 0;
    struct report_case cases[] = {
        a.c,
        failed_case("4x3090 ddp batch=1024", 40.1 * GIB, 16.0 * GIB),
        b.c,
        failed_case("4x3090 pipeline batch=1024", 0, 0),
        {.label = "x y z", .status = RH_INVALID, .error = "unknown strategy 'y'\nsecond line"},
    };
    char *text = listed(report_table, cases, 5);
    ASSERT_TEXT(
        text,
        "   case                          step, ms  samples/s  × one device  efficiency  exposed, "
        "ms"
        "  bubble  fullest, GiB  of GiB  note\n"
        "   dgx-1v  single    batch=64     640.000      400.0             -           -       "
        "15.000"
        "   5.0 %          3.75   32.00\n"
        "   4x3090  ddp       batch=1024  does not fit: 40.1 of 16.0 GiB\n"
        "*  dgx-1v  ddp       batch=64     100.000     2560.0          6.40      80.0 %       "
        "15.000"
        "   5.0 %          3.75   32.00  waits for node0:gpu0 (v100-32gb)\n"
        "   4x3090  pipeline  batch=1024  does not fit on 'node0:gpu0': 40.1 GiB asked, 15.6 GiB "
        "available\n"
        "   x       y         z           invalid: unknown strategy 'y'\n");
    free(text);
    cases[1].label = "two words";
    text = listed(report_table, cases, 2);
    UNIT_ASSERT_CONTAINS(text, "\n   two words               does not fit: 40.1 of 16.0 GiB\n");
    free(text);
    sample_free(&a);
    sample_free(&b);
}

static void test_table_long_error(void)
{
    char error[401];
    memset(error, 'x', 400);
    error[400] = '\0';
    memcpy(error + 90, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 10); /* cut inside of these */
    struct report_case c = {.label = "a", .status = RH_FAILED, .error = error};
    char *text = listed(report_table, &c, 1);
    UNIT_ASSERT_CONTAINS(text, "failed: xxx");
    UNIT_ASSERT_CONTAINS(text, "\xc3\xa9…\n");
    free(text);
}

static void test_csv(void)
{
    struct sample s;
    sample_init(&s, 1);
    s.c.label = "with, comma";
    s.c.model = "quote \" and\nnewline";
    s.result.exposed_communication_seconds = 0;
    s.result.bubble_fraction = 0.1;
    struct report_case cases[] = {s.c, failed_case("big", 0, 0)};
    char *text = listed(report_csv, cases, 2);
    ASSERT_TEXT(
        text,
        "label,status,error,experiment,model,strategy,cluster,backend,backend_version,launch,"
        "precision,batch_fixed,device_count,batch,accumulate,microbatches,buckets,seed,step_"
        "seconds,"
        "samples_per_second,speedup,efficiency,single_step_seconds,single_batch,"
        "exposed_communication_seconds,bubble_fraction,flops_per_second,compute_scale,"
        "fullest_device,peak_bytes,capacity_bytes,waited_for,last_loss\n"
        "\"with, comma\",ok,,resnet50-ddp,\"quote \"\" "
        "and\nnewline\",ddp,dgx-1v,simgrid,3.32,eager,"
        "fp32,batch_per_device,1,256,1,1,5,18446744073709551615,0.1,2560,6.4,0.8,0.08,32,0,0.1,"
        "32000000000000,1,node0:gpu0 (v100-32gb),4026531840,34359738368,,1.375\n"
        "big,out_of_memory,\"experiment 'big': does not fit on 'node0:gpu0': 40.1 GiB asked, 15.6 "
        "GiB available (0.4 GiB runtime); largest: conv1 1.0 GiB\",big,,,,,,,,,0,0,0,0,0,0"
        ",,,,,,,,,,,,,,,\n");
    int heading_commas = times_in(text, ",") - times_in(strchr(text, '\n'), ",");
    CU_ASSERT_EQUAL(times_in(strstr(text, "big,out"), ","),
                    heading_commas + 1); /* one in the error */
    free(text);
    sample_free(&s);
}

/* A folder for the files of one test. */
static char *folder_new(void)
{
    const char *base = getenv("TMPDIR");
    char *folder = text_format("%s/rehearse-report-XXXXXX", base && *base ? base : "/tmp");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    return folder;
}

/* Removing it also shows that nothing else was left in it. */
static void folder_free(char *folder, char *path)
{
    unlink(path);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
    free(path);
    free(folder);
}

static const cJSON *find_event(const cJSON *events, const char *phase, const char *name, int nth)
{
    for (const cJSON *event = events->child; event; event = event->next)
        if (strcmp(cJSON_GetObjectItem(event, "ph")->valuestring, phase) == 0 &&
            strcmp(cJSON_GetObjectItem(event, "name")->valuestring, name) == 0 && nth-- == 0)
            return event;
    return NULL;
}

static double event_number(const cJSON *event, const char *key)
{
    const cJSON *item = event ? cJSON_GetObjectItem(event, key) : NULL;
    return item ? item->valuedouble : NAN;
}

static void check_trace(const cJSON *json)
{
    const cJSON *events = cJSON_GetObjectItem(json, "traceEvents");
    const cJSON *conv = find_event(events, "X", "conv \"1\"\\\n", 0);
    const cJSON *bucket = find_event(events, "X", "bucket 0", 0);
    const cJSON *range = find_event(events, "X", "backward", 0);
    CU_ASSERT_EQUAL(event_number(conv, "ts"), 1);
    CU_ASSERT_EQUAL(event_number(conv, "dur"), 2.5);
    CU_ASSERT_EQUAL(event_number(conv, "pid"), 0);
    CU_ASSERT_EQUAL(event_number(cJSON_GetObjectItem(conv, "args"), "step"), 4);
    CU_ASSERT_EQUAL(event_number(cJSON_GetObjectItem(conv, "args"), "microbatch"), 2);
    CU_ASSERT_STRING_EQUAL(
        cJSON_GetObjectItem(cJSON_GetObjectItem(conv, "args"), "work")->valuestring, "backward");
    CU_ASSERT_EQUAL(event_number(bucket, "pid"), 1);
    CU_ASSERT_EQUAL(event_number(bucket, "ts"), 3.5); /* begins exactly where conv ends */
    CU_ASSERT_PTR_NULL(cJSON_GetObjectItem(cJSON_GetObjectItem(bucket, "args"), "microbatch"));
    CU_ASSERT_STRING_EQUAL(cJSON_GetObjectItem(bucket, "cat")->valuestring, "communication");
    CU_ASSERT_NOT_EQUAL(event_number(conv, "tid"), event_number(bucket, "tid"));
    CU_ASSERT_EQUAL(event_number(range, "tid"), event_number(conv, "tid") - 1);
    CU_ASSERT_PTR_NULL(find_event(events, "X", "broken", 0));
    const cJSON *process = find_event(events, "M", "process_name", 1);
    CU_ASSERT_STRING_EQUAL(
        cJSON_GetObjectItem(cJSON_GetObjectItem(process, "args"), "name")->valuestring,
        "node0:gpu1 (v100-32gb)");
    static const char *const threads[] = {"compute: ranges", "compute", "communication"};
    for (int i = 0; i < 3; i++) {
        const cJSON *thread = find_event(events, "M", "thread_name", i);
        CU_ASSERT_PTR_NOT_NULL_FATAL(thread);
        CU_ASSERT_STRING_EQUAL(
            cJSON_GetObjectItem(cJSON_GetObjectItem(thread, "args"), "name")->valuestring,
            threads[i]);
    }
    CU_ASSERT_PTR_NULL(find_event(events, "M", "thread_name", 3));
}

static void test_trace(void)
{
    struct sample s;
    char compute[] = "compute"; /* equal names need not be one pointer */
    struct span spans[] = {
        {0, "compute", "backward", WORK_BACKWARD, 4, -1, 1e-6, 3.5e-6, false, true},
        {0, compute, "conv \"1\"\\\n", WORK_BACKWARD, 4, 2, 1e-6, 3.5e-6, false, false},
        {1, "communication", "bucket 0", WORK_COMMUNICATION, 4, -1, 3.5e-6, 9e-6, true, false},
        {1, "compute", "broken", WORK_OTHER, 4, -1, NAN, 9e-6, false, false},
    };
    char *folder = folder_new(), *path = text_format("%s/trace.json", folder);
    cJSON *json = NULL;
    sample_init(&s, 2);
    CU_ASSERT_EQUAL(report_trace(&s.c, path), RH_FAILED);
    UNIT_ASSERT_CONTAINS(fail_message(), "kept no spans");
    CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
    s.result.spans = spans;
    s.result.span_count = 4;
    CU_ASSERT_EQUAL(report_trace(&s.c, path), RH_OK);
    CU_ASSERT_EQUAL_FATAL(json_read_file(path, &json), RH_OK);
    check_trace(json);
    cJSON_Delete(json);
    struct report_case failed = failed_case("a", 0, 0);
    CU_ASSERT_EQUAL(report_trace(&failed, path), RH_OUT_OF_MEMORY);
    UNIT_ASSERT_CONTAINS(fail_message(), "no timeline");
    folder_free(folder, path);
    sample_free(&s);
}

static void test_trace_many(void)
{
    enum { COUNT = 100000 };
    struct sample s;
    sample_init(&s, 64);
    struct span *spans = memory_new_array(COUNT, sizeof *spans);
    for (int i = 0; i < COUNT; i++)
        spans[i] = (struct span){i % 64,     i % 2 ? "compute" : "communication",
                                 "op",       WORK_FORWARD,
                                 1,          -1,
                                 i * 1e-6,   (i + 64) * 1e-6,
                                 i % 2 == 0, false};
    s.result.spans = spans;
    s.result.span_count = COUNT;
    char *folder = folder_new(), *path = text_format("%s/trace.json", folder);
    cJSON *json = NULL;
    CU_ASSERT_EQUAL(report_trace(&s.c, path), RH_OK);
    char *text = text_read_file(path, NULL);
    json = cJSON_Parse(text);
    CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(json, "traceEvents")), COUNT + 64 * 4);
    cJSON_Delete(json);
    free(text);
    free(spans);
    folder_free(folder, path);
    sample_free(&s);
}

static void test_write_json(void)
{
    char *folder = folder_new(), *path = text_format("%s/report.json", folder);
    char *absent = text_format("%s/absent/report.json", folder);
    cJSON *json = cJSON_Parse("{\"a\": [1, 2.5]}"), *back = NULL;
    mode_t mask = umask(022);
    struct stat info;
    CU_ASSERT_EQUAL(report_write_json(json, path), RH_OK);
    CU_ASSERT_EQUAL(report_write_json(json, path), RH_OK); /* replaces */
    umask(mask);
    CU_ASSERT_EQUAL(stat(path, &info), 0);
    CU_ASSERT_EQUAL(info.st_mode & 0777, 0644);
    CU_ASSERT_EQUAL_FATAL(json_read_file(path, &back), RH_OK);
    CU_ASSERT_TRUE(cJSON_Compare(json, back, true));
    cJSON_Delete(back);
    CU_ASSERT_EQUAL(report_write_json(json, absent), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "cannot write '");
    UNIT_ASSERT_CONTAINS(fail_message(), "No such file");
    CU_ASSERT_EQUAL(report_write_json(json, folder), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "Is a directory");
    CU_ASSERT_EQUAL(report_write_json(json, "/dev/null"), RH_OK);
    CU_ASSERT_EQUAL(stat("/dev/null", &info), 0);
    CU_ASSERT_TRUE(S_ISCHR(info.st_mode)); /* written through, not replaced */
    cJSON_Delete(json);
    free(absent);
    folder_free(folder, path);
}

/* A full device: what was there before stays, and nothing else is left. */
static void test_write_full(void)
{
    cJSON *json = cJSON_Parse("[1]");
    CU_ASSERT_EQUAL(report_write_json(json, "/dev/full"), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "No space left");
    cJSON_Delete(json);
}

static const char *needs_full(void)
{
    return access("/dev/full", W_OK) == 0 ? NULL : "/dev/full is not here";
}

static const char *needs_gnuplot(void)
{
    return system("gnuplot --version >/dev/null 2>&1") == 0 ? NULL : "gnuplot is not here";
}

static void test_plot(void)
{
    struct sample s;
    sample_init(&s, 1);
    struct report_case cases[] = {s.c, failed_case("big_case", 40.1 * GIB, 16.0 * GIB), s.c, {0}};
    char *folder = folder_new(), *path = text_format("%s/plot 'a'.svg", folder);
    char *trap = text_format("%s/trap", folder);
    char *label = text_format("quote \" ' `touch %s` 100%% \\ a_b", trap);
    cases[2].label = label;
    CU_ASSERT_EQUAL(report_plot(cases, 4, path), RH_OK);
    char *svg = text_read_file(path, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(svg);
    UNIT_ASSERT_CONTAINS(svg, "<svg");
    UNIT_ASSERT_CONTAINS(svg, "</svg>");
    UNIT_ASSERT_CONTAINS(svg, "dgx-1v ddp batch=64");
    UNIT_ASSERT_CONTAINS(svg, "does not fit: 40.1 of 16.0 GiB");
    UNIT_ASSERT_CONTAINS(svg, "2560.0 (fastest)");
    UNIT_ASSERT_CONTAINS(svg, "big_case");
    UNIT_ASSERT_CONTAINS(svg, "efficiency against one device, %");
    CU_ASSERT_NOT_EQUAL(access(trap, F_OK), 0);
    free(svg);
    CU_ASSERT_EQUAL(report_plot(cases + 1, 1, path), RH_OK); /* nothing ran: still a picture */
    free(label);
    free(trap);
    folder_free(folder, path);
    sample_free(&s);
}

static void test_plot_without_gnuplot(void)
{
    struct sample s;
    sample_init(&s, 1);
    char *folder = folder_new(), *path = text_format("%s/plot.svg", folder);
    char *search = text_copy(getenv("PATH"));
    setenv("PATH", folder, 1);
    CU_ASSERT_EQUAL(report_plot(&s.c, 1, path), RH_FAILED);
    if (search)
        setenv("PATH", search, 1);
    else
        unsetenv("PATH");
    UNIT_ASSERT_CONTAINS(fail_message(), "gnuplot is not there");
    CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
    CU_ASSERT_EQUAL(report_plot(&s.c, 0, path), RH_INVALID);
    free(search);
    folder_free(folder, path);
    sample_free(&s);
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"print", test_print, NULL},
        {"print_long_settings", test_print_long_settings, NULL},
        {"group_equal", test_group_equal, NULL},
        {"group_extremes", test_group_extremes, NULL},
        {"nothing_known", test_nothing_known, NULL},
        {"json", test_json, NULL},
        {"json_failed", test_json_failed, NULL},
        {"measured_memory", test_measured_memory, NULL},
        {"failed_print", test_failed_print, NULL},
        {"table", test_table, NULL},
        {"table_long_error", test_table_long_error, NULL},
        {"csv", test_csv, NULL},
        {"trace", test_trace, NULL},
        {"trace_many", test_trace_many, NULL},
        {"write_json", test_write_json, NULL},
        {"write_full", test_write_full, needs_full},
        {"plot", test_plot, needs_gnuplot},
        {"plot_without_gnuplot", test_plot_without_gnuplot, NULL},
    };
    return UNIT_MAIN("report", tests);
}
