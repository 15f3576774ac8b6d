/* Which device file a GPU has, and a node of what was detected. */
#include "platform/detect.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "platform/import.h"

/* Drivers differ by 1 to 2 % in what they call a GPU's memory. */
static const double memory_tolerance = 0.1;

enum { MOST_WORDS = 16 };

/* Lower-case words of letters and digits. */
struct words {
    char word[MOST_WORDS][24];
    int count;
};

static void split(const char *text, struct words *words)
{
    size_t length = 0;
    words->count = 0;
    for (;; text++) {
        if (isalnum((unsigned char)*text)) {
            if (words->count < MOST_WORDS && length + 1 < sizeof words->word[0])
                words->word[words->count][length++] = (char)tolower((unsigned char)*text);
            continue;
        }
        if (length)
            words->word[words->count++][length] = '\0';
        length = 0;
        if (!*text)
            return;
    }
}

static bool has(const struct words *words, const char *word)
{
    for (int i = 0; i < words->count; i++)
        if (strcmp(words->word[i], word) == 0)
            return true;
    return false;
}

/* What sellers add and memory tells better: makers, sizes, kinds of memory, the socket SXM. */
static bool says_nothing(const char *word)
{
    static const char *const words[] = {"nvidia", "tesla", "geforce", "graphics", "gpu"};
    size_t digits = strspn(word, "0123456789");
    if ((digits && strcmp(word + digits, "gb") == 0) || text_starts_with(word, "hbm") ||
        text_starts_with(word, "sxm"))
        return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

static bool says_all(const struct words *one, const struct words *other)
{
    for (int i = 0; i < one->count; i++)
        if (!says_nothing(one->word[i]) && !has(other, one->word[i]))
            return false;
    return true;
}

/* "NVIDIA GeForce RTX 3090" is rtx-3090; with "Ti", "PCIe" or "NVL" behind it is another. */
static bool is_called(const struct device_model *model, const struct detected_gpu *gpu)
{
    struct words there;
    struct words here;
    split(model->name, &there);
    split(gpu->name, &here);
    return says_all(&there, &here) && says_all(&here, &there);
}

static double memory_distance(const struct device_model *model, const struct detected_gpu *gpu)
{
    return fabs(model->memory_bytes / gpu->memory_bytes - 1);
}

enum rh_status detect_model(struct platform *p, const struct detected_gpu *gpu,
                            const struct device_model **out)
{
    int count = 0;
    const char *const *names = platform_names(p, PLATFORM_DEVICE, &count);
    const struct device_model *best = NULL;
    const struct device_model *nearest = NULL;
    double least = INFINITY;
    char memory[32];
    for (int i = 0; i < count; i++) {
        const struct device_model *model = NULL;
        RETURN_IF_FAILED(platform_device(p, names[i], &model));
        if (model->host)
            continue;
        bool called = is_called(model, gpu);
        double distance = memory_distance(model, gpu);
        double strangeness =
            distance + abs(model->compute_capability - gpu->capability) + (called ? 0 : 0.5);
        if (called && distance <= memory_tolerance &&
            (!best || distance < memory_distance(best, gpu)))
            best = model;
        if (strangeness < least) {
            least = strangeness;
            nearest = model;
        }
    }
    *out = best;
    if (best)
        return RH_OK;
    return fail(RH_FAILED,
                "GPU '%s' of %s is not among platforms/devices%s%s; describe it there, or name its "
                "device with --gpu",
                gpu->name, text_bytes(memory, gpu->memory_bytes),
                nearest ? "; the nearest is " : "", nearest ? nearest->name : "");
}

/* GT/s of a generation, as the kernel writes it; unknown is left to the reader. */
static const char *pcie_speed(int generation)
{
    static const char *const speeds[] = {"",
                                         "2.5 GT/s PCIe",
                                         "5.0 GT/s PCIe",
                                         "8.0 GT/s PCIe",
                                         "16.0 GT/s PCIe",
                                         "32.0 GT/s PCIe",
                                         "64.0 GT/s PCIe"};
    return generation > 0 && generation <= 6 ? speeds[generation] : "";
}

static void add_gpu(struct text *xml, const struct detected_gpu *gpu, int number)
{
    text_add(xml,
             "    <pci busid=\"%s\" class=\"0x030200\" link_speed=\"%s\" link_width=\"%d\">\n"
             "      <gpu dev=\"%d\" sm=\"%d\">\n",
             gpu->busid, pcie_speed(gpu->pcie_generation), gpu->pcie_lanes, number,
             gpu->capability);
    for (int i = 0; i < gpu->link_count; i++)
        text_add(xml, "        <nvlink target=\"%s\" count=\"%d\" tclass=\"%s\"/>\n",
                 gpu->links[i].to[0] ? gpu->links[i].to : "ffff:ffff:ff", gpu->links[i].count,
                 gpu->links[i].to[0] ? "0x030200" : "0x068000");
    text_add(xml, "      </gpu>\n    </pci>\n");
}

char *detect_topology(const struct detected *d)
{
    struct text xml = {0};
    int most = 0;
    for (int i = 0; i < d->gpu_count; i++)
        most = d->gpus[i].numa_node > most ? d->gpus[i].numa_node : most;
    text_add(&xml, "<system version=\"1\">\n");
    for (int cpu = 0; cpu <= most; cpu++) {
        bool any = false;
        for (int i = 0; i < d->gpu_count; i++) {
            int node = d->gpus[i].numa_node < 0 ? 0 : d->gpus[i].numa_node;
            if (node != cpu)
                continue;
            if (!any)
                text_add(&xml, "  <cpu numaid=\"%d\">\n", cpu);
            any = true;
            add_gpu(&xml, &d->gpus[i], i);
        }
        if (any)
            text_add(&xml, "  </cpu>\n");
    }
    text_add(&xml, "</system>\n");
    return xml.data;
}

static enum rh_status common_model(struct platform *p, const struct detected *d,
                                   const struct device_model **model)
{
    RETURN_IF_FAILED(detect_model(p, &d->gpus[0], model));
    for (int i = 1; i < d->gpu_count; i++) {
        const struct device_model *other = NULL;
        RETURN_IF_FAILED(detect_model(p, &d->gpus[i], &other));
        if (other != *model)
            return fail(RH_FAILED,
                        "gpu 0 is '%s', gpu %d is '%s'; GPUs of one kind are read, name it with "
                        "--gpu",
                        (*model)->name, i, other->name);
    }
    return RH_OK;
}

enum rh_status detect_node(struct platform *p, const struct detected *d, const char *topology,
                           const char *device, const char *name, const struct node_model **node)
{
    const struct device_model *model = NULL;
    struct node_record *made = NULL;
    if (!device)
        RETURN_IF_FAILED(common_model(p, d, &model));
    char *own = topology ? NULL : detect_topology(d);
    const struct import import = {p, "this machine", device ? device : model->name, name};
    enum rh_status status = import_nccl(&import, topology ? topology : own, &made);
    free(own);
    if (status != RH_OK)
        return fail_within(status, "the topology of this machine");
    free(made->model.source);
    made->model.source =
        text_format("detected: %d x %s, driver %s; %s. Rates of links are NCCL 2.28's.",
                    d->gpu_count, d->gpus[0].name, d->driver,
                    topology ? "NCCL's topology" : "NVML alone, without NICs and PCIe switches");
    platform_keep_node(p, "this machine", made);
    *node = &made->model;
    return RH_OK;
}
