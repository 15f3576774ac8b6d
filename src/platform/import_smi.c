/* An nvidia-smi matrix to a node. NVLinks are as stated; PCIe is rebuilt as the smallest tree with
 * the stated distances. Members of a switch, an upper switch and a CPU are those that are joined,
 * over others if need be, by entries of at most PIX, PXB and NODE. GPUs whose only entry is NVLink
 * go to the CPU that their NUMA node or CPU list names, unless a SYS entry stands between. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "platform/import.h"
#include "platform/import_matrix.h"

static const double socket_bytes_per_second =
    10e9; /* NCCL, Skylake to Ice Lake; the file has no CPU */

/* Group numbers of all members: the smallest member of a group is its number. */
struct groups {
    int *of;
    int count;
};

static void join(struct groups *groups, int a, int b)
{
    int low = groups->of[a] < groups->of[b] ? groups->of[a] : groups->of[b];
    int high = groups->of[a] < groups->of[b] ? groups->of[b] : groups->of[a];
    for (int i = 0; i < groups->count && low != high; i++)
        if (groups->of[i] == high)
            groups->of[i] = low;
}

/* Joins all pairs with an entry from PIX up to `farthest`. */
static struct groups group(const struct matrix *m, enum tie farthest)
{
    struct groups groups = {memory_new_array((size_t)m->count, sizeof(int)), m->count};
    for (int i = 0; i < m->count; i++)
        groups.of[i] = i;
    for (int i = 0; i < m->count; i++)
        for (int j = i + 1; j < m->count; j++) {
            enum tie tie = matrix_entry(m, i, j)->tie;
            if (tie >= TIE_PIX && tie <= farthest)
                join(&groups, i, j);
        }
    return groups;
}

/* Whether nothing says that two members' groups sit on different CPUs. */
static bool may_share_cpu(const struct matrix *m, const struct groups *cpus, int a, int b)
{
    for (int i = 0; i < m->count; i++)
        for (int j = 0; j < m->count; j++)
            if (cpus->of[i] == cpus->of[a] && cpus->of[j] == cpus->of[b]) {
                const char *one = m->affinity[i];
                const char *other = m->affinity[j];
                if (matrix_entry(m, i, j)->tie == TIE_SYS ||
                    (one && other && strcmp(one, other) != 0))
                    return false;
            }
    return true;
}

static struct groups group_cpus(const struct matrix *m)
{
    struct groups cpus = group(m, TIE_NODE);
    for (int i = 0; i < m->count; i++)
        for (int j = i + 1; j < m->count; j++)
            if (cpus.of[i] != cpus.of[j] && may_share_cpu(m, &cpus, i, j))
                join(&cpus, i, j);
    return cpus;
}

static int group_size(const struct groups *groups, int number)
{
    int size = 0;
    for (int i = 0; i < groups->count; i++)
        size += groups->of[i] == number;
    return size;
}

static enum rh_status add_members(struct node_record *node, const struct matrix *m,
                                  const struct device_model *device, int *vertex)
{
    int gpu = 0;
    for (int i = 0; i < m->count; i++) {
        if (m->is_gpu[i]) {
            char name[32];
            snprintf(name, sizeof name, "gpu%d", gpu++);
            vertex[i] = node_add_gpu(node, name, device);
        }
    }
    for (int i = 0; i < m->count; i++) {
        if (!m->is_gpu[i]) {
            vertex[i] = node_add_vertex(node, VERTEX_NIC, m->names[i]);
            node->port_bytes_per_second[vertex[i]] = import_nic_rate(device);
        }
    }
    return RH_OK;
}

/* The switch that stands for a group, made when first asked for; up to `parent`. */
static int switch_of(struct node_record *node, int *switches, int number, int parent, double rate,
                     int *made)
{
    if (switches[number] < 0) {
        char name[32];
        snprintf(name, sizeof name, "plx%d", (*made)++);
        switches[number] = node_add_vertex(node, VERTEX_SWITCH, name);
        node_add_link(node, switches[number], parent, LINK_PCIE, rate, PCIE_LATENCY, 1);
    }
    return switches[number];
}

/* Hangs every member below its CPU: directly, on a switch, or on a switch below a switch. */
static void add_tree(struct node_record *node, const struct matrix *m, const struct groups *cpus,
                     const int *cpu_of_group, const int *vertex, double rate)
{
    struct groups inner = group(m, TIE_PIX);
    struct groups outer = group(m, TIE_PXB);
    int *inner_switch = memory_new_array((size_t)m->count, sizeof *inner_switch);
    int *outer_switch = memory_new_array((size_t)m->count, sizeof *outer_switch);
    int made = 0;
    for (int i = 0; i < m->count; i++)
        inner_switch[i] = outer_switch[i] = -1;
    for (int i = 0; i < m->count; i++) {
        int parent = cpu_of_group[cpus->of[i]];
        int all = group_size(&outer, outer.of[i]);
        if (all > group_size(&inner, inner.of[i])) {
            parent = switch_of(node, outer_switch, outer.of[i], parent, rate, &made);
            parent = switch_of(node, inner_switch, inner.of[i], parent, rate, &made);
        } else if (all > 1) {
            parent = switch_of(node, inner_switch, inner.of[i], parent, rate, &made);
        }
        node_add_link(node, vertex[i], parent, LINK_PCIE, rate, PCIE_LATENCY, 1);
    }
    free(inner.of);
    free(outer.of);
    free(inner_switch);
    free(outer_switch);
}

/* NVLinks of one GPU, if every entry is a pair's own. */
static int count_nvlinks(const struct matrix *m, int gpu)
{
    int sum = 0;
    for (int j = 0; j < m->count; j++)
        sum += matrix_entry(m, gpu, j)->nvlinks;
    return sum;
}

/* The count that all pairs of at least 3 GPUs share, else 0. */
static int common_nvlinks(const struct matrix *m)
{
    int common = 0;
    for (int i = 0; i < m->count; i++)
        for (int j = 0; j < m->count; j++) {
            if (i == j || !m->is_gpu[i] || !m->is_gpu[j])
                continue;
            int count = matrix_entry(m, i, j)->nvlinks;
            if (!count || (common && count != common))
                return 0;
            common = count;
        }
    return m->gpu_count >= 3 ? common : 0;
}

static enum rh_status find_device(const struct import *import, const struct matrix *m,
                                  const struct device_model **device, bool *guessed)
{
    *guessed = !import->device;
    if (import->device)
        return import_device(import, import->device, device);
    int most = 0;
    for (int i = 0; i < m->count; i++)
        if (m->is_gpu[i] && count_nvlinks(m, i) > most)
            most = count_nvlinks(m, i);
    const char *name = import_guess_by_nvlinks(most);
    if (!name)
        name = import_guess_by_nvlinks(common_nvlinks(m));
    if (name)
        return import_device(import, name, device);
    return fail(
        RH_INVALID,
        "the file does not tell which GPUs these are (at most %d NVLink%s each); name their "
        "device with --gpu",
        most, most == 1 ? "" : "s");
}

static enum rh_status add_nvlinks(struct node_record *node, const struct matrix *m,
                                  const struct device_model *device, const int *vertex)
{
    int common = common_nvlinks(m);
    if (common && common == device->nvlink_count) {
        import_add_nvswitch(node, common);
        return RH_OK;
    }
    for (int i = 0; i < m->count; i++) {
        int sum = count_nvlinks(m, i);
        if (sum > device->nvlink_count)
            return fail(RH_INVALID, "'%s' has %d NVLinks in the matrix; device '%s' has %d",
                        m->names[i], sum, device->name, device->nvlink_count);
        for (int j = i + 1; j < m->count; j++) {
            int count = matrix_entry(m, i, j)->nvlinks;
            if (count)
                node_add_link(node, vertex[i], vertex[j], LINK_NVLINK,
                              count * device->nvlink_bytes_per_second, NVLINK_LATENCY, count);
        }
    }
    return RH_OK;
}

static enum rh_status add_all(const struct import *import, const struct matrix *m,
                              const struct device_model *device, struct node_record *node)
{
    struct groups cpus = group_cpus(m);
    int *vertex = memory_new_array((size_t)m->count, sizeof *vertex);
    int *cpu_of_group = memory_new_array((size_t)m->count, sizeof *cpu_of_group);
    int *cpu_vertex = memory_new_array((size_t)m->count, sizeof *cpu_vertex);
    int count = 0;
    for (int i = 0; i < m->count; i++)
        if (cpus.of[i] == i)
            cpu_of_group[i] = count++;
    enum rh_status status = add_members(node, m, device, vertex);
    if (status == RH_OK)
        status = import_add_cpus(import, node, count, socket_bytes_per_second, cpu_vertex);
    for (int i = 0; status == RH_OK && i < m->count; i++)
        if (cpus.of[i] == i)
            cpu_of_group[i] = cpu_vertex[cpu_of_group[i]];
    if (status == RH_OK)
        status = add_nvlinks(node, m, device, vertex);
    if (status == RH_OK)
        add_tree(node, m, &cpus, cpu_of_group, vertex, import_pcie_rate(device));
    free(cpus.of);
    free(vertex);
    free(cpu_of_group);
    free(cpu_vertex);
    return status == RH_OK ? node_finish(node, "the imported node") : status;
}

/* -p2p says who may address whom, not where anyone sits: all GPUs go to one CPU. */
static void place_peers(struct matrix *m, bool *peer_access)
{
    *peer_access = true;
    for (int i = 0; i < m->count * m->count; i++) {
        if (m->entries[i].tie == TIE_NO_PEER)
            *peer_access = false;
        if (m->entries[i].tie >= TIE_PEER)
            m->entries[i].tie = TIE_PHB;
    }
}

/* Pairs that the tree puts nearer than the matrix says: matrices that no tree can have. */
static int count_contradictions(const struct matrix *m)
{
    int found = 0;
    for (enum tie tie = TIE_PIX; tie <= TIE_PXB; tie++) {
        struct groups groups = group(m, tie);
        for (int i = 0; i < m->count; i++)
            for (int j = i + 1; j < m->count; j++)
                found += groups.of[i] == groups.of[j] && matrix_entry(m, i, j)->tie > tie;
        free(groups.of);
    }
    return found;
}

static char *describe_source(const struct import *import, const struct matrix *m, bool guessed)
{
    const char *slash = strrchr(import->path, '/');
    struct text text = {0};
    text_add(&text, "nvidia-smi topo %s, %s: ", m->peers ? "-p2p" : "-m",
             slash ? slash + 1 : import->path);
    text_add(&text, m->peers ? "who has peer access; places are not in it (all on one CPU). "
                             : "who is joined to whom. ");
    text_add(&text, "Rates are NCCL's for %s GPUs, PCIe and NICs of their time.",
             guessed ? "the guessed" : import->device);
    if (guessed)
        text_add(&text, " The GPU model was guessed from the NVLinks.");
    int contradictions = count_contradictions(m);
    if (contradictions)
        text_add(&text, " %d of the entries contradict%s others; the nearer was taken.",
                 contradictions, contradictions == 1 ? "s" : "");
    return text.data;
}

enum rh_status import_smi(const struct import *import, const char *text, struct node_record **node)
{
    struct matrix m;
    const struct device_model *device = NULL;
    bool peer_access = true;
    bool guessed = false;
    RETURN_IF_FAILED(matrix_read(text, &m));
    enum rh_status status = find_device(import, &m, &device, &guessed);
    if (status == RH_OK) {
        char *source = describe_source(import, &m, guessed);
        if (m.peers)
            place_peers(&m, &peer_access);
        struct node_record *made = node_new(import->name, source);
        made->peer_access = peer_access;
        free(source);
        status = add_all(import, &m, device, made);
        if (status != RH_OK) {
            node_free(made);
            made = NULL;
        }
        *node = made;
    }
    matrix_free(&m);
    return status;
}
