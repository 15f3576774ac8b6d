/* Who meets whom: communicators of a run, roots, peers. */
#include <stdlib.h>

#include "backends/simgrid/session.h"
#include "base/memory.h"
#include "plan/group.h"

int session_peer(const struct session *s, int worker, int group, struct peer peer)
{
    return group_peer(&s->plan->mesh, &s->plan->groups[group], worker, peer);
}

static enum rh_status make_communicator(struct session *s, struct meeting_place *place,
                                        const struct instruction *in)
{
    int count = place->worker_count * place->parts;
    int *devices = memory_new_array((size_t)count, sizeof *devices);
    for (int w = 0; w < place->worker_count; w++) {
        const struct role *role = &s->plan->roles[plan_role_of(s->plan, place->workers[w])];
        for (int p = 0; p < place->parts; p++) {
            int stream = role->parts[in->collect.part_first + p].stream;
            devices[w * place->parts + p] =
                session_device(s, place->workers[w], role->streams[stream].device);
        }
    }
    enum rh_status status =
        communicator_new(s->options.cluster, devices, count, &place->communicator);
    free(devices);
    return status;
}

enum rh_status session_place(struct session *s, int worker, int group, const char *stream,
                             int parts, const struct instruction *in, struct meeting_place **out)
{
    const struct group *g = &s->plan->groups[group];
    int base = group_member(&s->plan->mesh, g, worker, 0);
    for (int i = 0; i < s->place_count; i++) {
        struct meeting_place *place = &s->places[i];
        if (place->group == group && place->base == base && place->stream == stream &&
            place->parts == parts) {
            *out = place;
            return RH_OK;
        }
    }
    struct meeting_place *place = ARRAY_ADD(s->places, s->place_count, s->place_capacity);
    *place = (struct meeting_place){.group = group,
                                    .stream = stream,
                                    .base = base,
                                    .parts = parts,
                                    .worker_count = group_size(&s->plan->mesh, g)};
    place->workers = memory_new_array((size_t)place->worker_count, sizeof *place->workers);
    for (int i = 0; i < place->worker_count; i++) {
        place->workers[i] = group_member(&s->plan->mesh, g, worker, i);
        place->simulated += place->workers[i] < s->simulated;
    }
    enum rh_status status = make_communicator(s, place, in);
    if (status != RH_OK) {
        free(place->workers);
        s->place_count--;
        return status;
    }
    *out = place;
    return RH_OK;
}

int session_root(const struct session *s, const struct meeting_place *place,
                 const struct instruction *in)
{
    int index = group_root(&s->plan->groups[place->group], in->collect.root_coordinate);
    return index * place->parts + in->collect.root_part;
}

double session_collective_bytes(const struct role *role, const struct instruction *in, int members)
{
    double send = 0;
    double receive = 0;
    for (int p = 0; p < in->collect.part_count; p++) {
        const struct part *part = &role->parts[in->collect.part_first + p];
        double bytes = part->send >= 0 ? (double)type_bytes(&role->views[part->send].type) : 0;
        send = bytes > send ? bytes : send;
        bytes = part->receive >= 0 ? (double)type_bytes(&role->views[part->receive].type) : 0;
        receive = bytes > receive ? bytes : receive;
    }
    double most = send > receive ? send : receive;
    if (in->collect.kind == COLLECTIVE_ALL_GATHER && send > 0 && send * members > most)
        return send * members;
    return most;
}
