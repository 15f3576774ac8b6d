/* Building a node and checking that it is whole: one host, all of it reachable, names unique. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "platform/private.h"

const char *link_class_name(enum link_class c)
{
    static const char *const names[LINK_CLASS_COUNT] = {
        [LINK_NVLINK] = "NVLink", [LINK_PCIE] = "PCIe", [LINK_SOCKET] = "socket",
        [LINK_MEMORY] = "memory", [LINK_NIC] = "NIC",   [LINK_FABRIC] = "fabric"};
    assert((unsigned)c < LINK_CLASS_COUNT);
    return names[c];
}

const char *vertex_kind_name(enum vertex_kind kind)
{
    static const char *const names[] = {[VERTEX_GPU] = "gpu",
                                        [VERTEX_HOST] = "host",
                                        [VERTEX_NIC] = "nic",
                                        [VERTEX_CPU] = "cpu",
                                        [VERTEX_SWITCH] = "switch"};
    assert((unsigned)kind <= VERTEX_SWITCH);
    return names[kind];
}

void node_free(struct node_record *node)
{
    if (!node)
        return;
    struct node_model *model = &node->model;
    for (int i = 0; i < model->vertex_count; i++)
        free(model->vertices[i].name);
    for (int i = 0; node->link_names && i < 2 * model->link_count; i++)
        free(node->link_names[i]);
    for (int i = 0; node->routes && i < node->endpoint_count * node->endpoint_count; i++)
        free(node->routes[i].links);
    free(model->name);
    free(model->source);
    free(model->devices);
    free(model->gpu_vertex);
    free(model->vertices);
    free(model->links);
    free(node->port_bytes_per_second);
    free(node->nics);
    free(node->endpoint);
    free(node->routes);
    free(node->link_names);
    free(node);
}

struct node_record *node_new(const char *name, const char *source)
{
    struct node_record *node = memory_new(sizeof *node);
    node->model.name = text_copy(name);
    node->model.source = text_copy(source);
    node->model.host_vertex = -1;
    node->peer_access = true;
    return node;
}

int node_add_vertex(struct node_record *node, enum vertex_kind kind, const char *name)
{
    struct node_model *model = &node->model;
    int vertex = model->vertex_count;
    *ARRAY_ADD(model->vertices, model->vertex_count, model->vertex_capacity) =
        (struct vertex){text_copy(name), kind, -1};
    node->port_bytes_per_second = memory_resize(node->port_bytes_per_second, (size_t)vertex + 1,
                                                sizeof *node->port_bytes_per_second);
    node->port_bytes_per_second[vertex] = 0;
    if (kind == VERTEX_HOST && model->host_vertex < 0)
        model->host_vertex = vertex;
    if (kind == VERTEX_NIC) {
        node->nics = memory_resize(node->nics, (size_t)node->nic_count + 1, sizeof *node->nics);
        node->nics[node->nic_count++] = vertex;
    }
    return vertex;
}

int node_add_gpu(struct node_record *node, const char *name, const struct device_model *device)
{
    struct node_model *model = &node->model;
    int vertex = node_add_vertex(node, VERTEX_GPU, name);
    int gpu = model->gpu_count++;
    model->vertices[vertex].device = gpu;
    model->devices =
        memory_resize(model->devices, (size_t)model->gpu_count, sizeof *model->devices);
    model->gpu_vertex =
        memory_resize(model->gpu_vertex, (size_t)model->gpu_count, sizeof *model->gpu_vertex);
    model->devices[gpu] = device;
    model->gpu_vertex[gpu] = vertex;
    return vertex;
}

void node_add_link(struct node_record *node, int a, int b, enum link_class class,
                   double bytes_per_second, double latency_seconds, int count)
{
    struct node_model *model = &node->model;
    *ARRAY_ADD(model->links, model->link_count, model->link_capacity) =
        (struct link){a, b, class, bytes_per_second, latency_seconds, count};
}

static bool name_is_fine(const char *name)
{
    return *name && !name[strcspn(name, " \t\r\n\"<>&")];
}

static enum rh_status check_vertices(const struct node_model *node, const char *where)
{
    int hosts = 0;
    int cpus = 0;
    for (int i = 0; i < node->vertex_count; i++) {
        const struct vertex *v = &node->vertices[i];
        hosts += v->kind == VERTEX_HOST;
        cpus += v->kind == VERTEX_CPU;
        if (!name_is_fine(v->name))
            return fail(RH_INVALID, "%s: vertex name '%s' is empty or has blanks or XML characters",
                        where, v->name);
        for (int j = 0; j < i; j++)
            if (strcmp(node->vertices[j].name, v->name) == 0)
                return fail(RH_INVALID, "%s: vertex '%s' is given twice", where, v->name);
    }
    if (hosts != 1)
        return fail(RH_INVALID, "%s: %d vertices are of kind 'host'; exactly 1 is needed", where,
                    hosts);
    if (!cpus)
        return fail(RH_INVALID, "%s: no vertex is of kind 'cpu'; the host's memory needs one",
                    where);
    if (!node->gpu_count)
        return fail(RH_INVALID, "%s: no vertex is of kind 'gpu'", where);
    return RH_OK;
}

static enum rh_status check_links(const struct node_model *node, const char *where)
{
    for (int i = 0; i < node->link_count; i++) {
        const struct link *link = &node->links[i];
        const char *a = node->vertices[link->a].name;
        const char *b = node->vertices[link->b].name;
        if (link->a == link->b)
            return fail(RH_INVALID, "%s: a link joins '%s' to itself", where, a);
        for (int j = 0; j < i; j++) {
            const struct link *other = &node->links[j];
            if ((other->a == link->a && other->b == link->b) ||
                (other->a == link->b && other->b == link->a))
                return fail(RH_INVALID,
                            "%s: the link between '%s' and '%s' is given twice; bonded links are "
                            "one with a 'count'",
                            where, a, b);
        }
    }
    return RH_OK;
}

/* Every CPU holds a share of the host's memory; a CPU without a link to it could not copy. */
static enum rh_status check_memory_links(const struct node_model *node, const char *where)
{
    for (int v = 0; v < node->vertex_count; v++) {
        bool joined = node->vertices[v].kind != VERTEX_CPU;
        for (int i = 0; i < node->link_count && !joined; i++)
            joined = (node->links[i].a == v && node->links[i].b == node->host_vertex) ||
                     (node->links[i].b == v && node->links[i].a == node->host_vertex);
        if (!joined)
            return fail(RH_INVALID, "%s: cpu '%s' has no link to the host '%s'", where,
                        node->vertices[v].name, node->vertices[node->host_vertex].name);
    }
    return RH_OK;
}

static enum rh_status check_reached(const struct node_record *node, const char *where)
{
    const struct node_model *model = &node->model;
    for (int from = 0; from < model->vertex_count; from++) {
        for (int to = 0; to < model->vertex_count; to++) {
            if (node->endpoint[from] < 0 || node->endpoint[to] < 0 || from == to)
                continue;
            if (!node_route(node, from, to)->found)
                return fail(RH_INVALID, "%s: no links lead from '%s' to '%s'", where,
                            model->vertices[from].name, model->vertices[to].name);
        }
    }
    return RH_OK;
}

static void name_links(struct node_record *node)
{
    const struct node_model *model = &node->model;
    node->link_names = memory_new_array(2 * (size_t)model->link_count, sizeof *node->link_names);
    for (int i = 0; i < model->link_count; i++) {
        const char *a = model->vertices[model->links[i].a].name;
        const char *b = model->vertices[model->links[i].b].name;
        node->link_names[2 * i] = text_format("%s-%s.up", a, b);
        node->link_names[2 * i + 1] = text_format("%s-%s.down", a, b);
    }
}

enum rh_status node_finish(struct node_record *node, const char *where)
{
    struct node_model *model = &node->model;
    RETURN_IF_FAILED(check_vertices(model, where));
    RETURN_IF_FAILED(check_links(model, where));
    RETURN_IF_FAILED(check_memory_links(model, where));
    node->endpoint = memory_new_array((size_t)model->vertex_count, sizeof *node->endpoint);
    for (int i = 0; i < model->vertex_count; i++) {
        enum vertex_kind kind = model->vertices[i].kind;
        bool ends = kind == VERTEX_GPU || kind == VERTEX_HOST || kind == VERTEX_NIC;
        node->endpoint[i] = ends ? node->endpoint_count++ : -1;
    }
    node_find_routes(node);
    name_links(node);
    return check_reached(node, where);
}

int node_nvlinks(const struct node_model *node, int gpu_a, int gpu_b)
{
    assert(gpu_a >= 0 && gpu_a < node->gpu_count && gpu_b >= 0 && gpu_b < node->gpu_count);
    int a = node->gpu_vertex[gpu_a];
    int b = node->gpu_vertex[gpu_b];
    if (a == b)
        return 0;
    bool switched_a = false;
    bool switched_b = false;
    for (int i = 0; i < node->link_count; i++) {
        const struct link *link = &node->links[i];
        if (link->class != LINK_NVLINK)
            continue;
        if ((link->a == a && link->b == b) || (link->a == b && link->b == a))
            return link->count;
        bool to_switch = node->vertices[link->a].kind == VERTEX_SWITCH ||
                         node->vertices[link->b].kind == VERTEX_SWITCH;
        switched_a |= to_switch && (link->a == a || link->b == a);
        switched_b |= to_switch && (link->a == b || link->b == b);
    }
    return switched_a && switched_b ? -1 : 0; /* all NVSwitches of a node are one vertex */
}
