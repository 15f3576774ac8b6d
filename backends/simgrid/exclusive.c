/* Which transfers have their links to themselves, so that a formula gives their time: decided from
 * the plan alone. Two transfers of one worker are apart if the list orders them; those of different
 * workers only if they share no link, except that a collective waits for all its members. */
#include <stdlib.h>
#include <string.h>

#include "backends/simgrid/session.h"
#include "base/memory.h"

enum { NOBODY = -1, SEVERAL = -2 };

/* Who uses each directed link in one list. */
struct owners {
    int *worker; /* sender of copies and messages: a worker, NOBODY, SEVERAL */
    int *place;  /* members of collectives: set number, NOBODY, SEVERAL */
    int links;
};

struct finding {
    struct session *s;
    struct owners owners;
    bool **place_links; /* per place: links of its rings */
};

/* Places with the same members are one set. */
static int set_of(const struct session *s, int place)
{
    for (int i = 0; i < place; i++)
        if (s->places[i].group == s->places[place].group &&
            s->places[i].base == s->places[place].base)
            return i;
    return place;
}

static bool set_contains(const struct session *s, int set, int worker)
{
    for (int i = 0; i < s->places[set].worker_count; i++)
        if (s->places[set].workers[i] == worker)
            return true;
    return false;
}

static enum rh_status place_of(struct session *s, int worker, const struct role *role,
                               const struct instruction *in, int *place)
{
    struct meeting_place *found = NULL;
    const char *stream = role->streams[role->parts[in->collect.part_first].stream].name;
    RETURN_IF_FAILED(
        session_place(s, worker, in->collect.group, stream, in->collect.part_count, in, &found));
    *place = (int)(found - s->places);
    return RH_OK;
}

static enum rh_status ring_links(struct finding *f, int place, const struct role *role,
                                 const struct instruction *in)
{
    struct session *s = f->s;
    struct meeting_place *p = &s->places[place];
    int members = p->worker_count * p->parts;
    struct collective_cost cost;
    if (!f->place_links[place])
        f->place_links[place] = memory_new_array((size_t)f->owners.links, sizeof(bool));
    enum collective_kind kind =
        in->collect.kind == COLLECTIVE_ALL_TO_ALL ? COLLECTIVE_ALL_TO_ALL : COLLECTIVE_ALL_REDUCE;
    double bytes = session_collective_bytes(role, in, members);
    RETURN_IF_FAILED(collective_price(p->communicator, kind, bytes, 0, &cost));
    for (int i = 0; i < cost.flow_count; i++) {
        struct route route;
        RETURN_IF_FAILED(cluster_route(
            s->options.cluster, communicator_device(p->communicator, cost.flows[i].from),
            communicator_device(p->communicator, cost.flows[i].to), cost.flows[i].channel, &route));
        for (int k = 0; k < route.count; k++)
            f->place_links[place][route.links[k]] = true;
    }
    return RH_OK;
}

/* The route of a copy, or of a message that this worker sends. */
static enum rh_status copy_route(const struct session *s, int worker, const struct role *role,
                                 const struct instruction *in, struct route *route)
{
    int from = role->buffers[role->views[in->copy.from].buffer].device;
    int to = role->buffers[role->views[in->copy.to].buffer].device;
    return cluster_route(s->options.cluster, session_device(s, worker, from),
                         session_device(s, worker, to), 0, route);
}

static enum rh_status message_route(const struct session *s, int worker, const struct role *role,
                                    const struct instruction *in, const struct message *m,
                                    struct route *route)
{
    int peer = session_peer(s, worker, in->exchange.group, m->peer);
    int mine = session_device(s, worker, role->streams[m->stream].device);
    int theirs = session_device(s, peer, 0);
    return cluster_route(s->options.cluster, m->send ? mine : theirs, m->send ? theirs : mine, 0,
                         route);
}

static void own(int *owner, int who)
{
    *owner = *owner == NOBODY || *owner == who ? who : SEVERAL;
}

/* Calls visit for every route of an instruction; `sender` is the worker whose bytes they are. */
static enum rh_status
each_route(struct finding *f, int worker, const struct role *role, const struct instruction *in,
           void (*visit)(struct finding *f, const struct route *route, int sender, bool *answer),
           bool *answer)
{
    struct route route;
    if (in->kind == INSTRUCTION_COPY) {
        RETURN_IF_FAILED(copy_route(f->s, worker, role, in, &route));
        visit(f, &route, worker, answer);
        return RH_OK;
    }
    for (int i = 0; i < in->exchange.message_count; i++) {
        const struct message *m = &role->messages[in->exchange.message_first + i];
        int peer = session_peer(f->s, worker, in->exchange.group, m->peer);
        RETURN_IF_FAILED(message_route(f->s, worker, role, in, m, &route));
        visit(f, &route, m->send ? worker : peer, answer);
    }
    return RH_OK;
}

static void visit_own(struct finding *f, const struct route *route, int sender, bool *answer)
{
    (void)answer;
    for (int k = 0; k < route->count; k++)
        own(&f->owners.worker[route->links[k]], sender);
}

static void visit_judge(struct finding *f, const struct route *route, int sender, bool *answer)
{
    for (int k = 0; k < route->count; k++) {
        int set = f->owners.place[route->links[k]];
        if (f->owners.worker[route->links[k]] == SEVERAL || set == SEVERAL ||
            (set >= 0 && !set_contains(f->s, set, sender)))
            *answer = false;
    }
}

static bool collective_alone(const struct finding *f, int place)
{
    const struct session *s = f->s;
    int set = set_of(s, place);
    bool everybody = s->places[set].worker_count == s->workers;
    for (int link = 0; link < f->owners.links; link++) {
        if (!f->place_links[place][link])
            continue;
        int sender = f->owners.worker[link];
        bool stranger =
            sender == SEVERAL ? !everybody : sender >= 0 && !set_contains(s, set, sender);
        if (f->owners.place[link] == SEVERAL || stranger)
            return false;
    }
    return true;
}

static enum rh_status claim_links(struct finding *f, int list)
{
    struct session *s = f->s;
    for (int i = 0; i < f->owners.links; i++)
        f->owners.worker[i] = f->owners.place[i] = NOBODY;
    for (int worker = 0; worker < s->simulated; worker++) {
        const struct role *role = &s->plan->roles[plan_role_of(s->plan, worker)];
        const struct list *l = &role->lists[list];
        for (int i = 0; i < l->count; i++) {
            const struct instruction *in = &l->instructions[i];
            int place = 0;
            if (!is_transfer(role, in))
                continue;
            if (in->kind != INSTRUCTION_COLLECT) {
                RETURN_IF_FAILED(each_route(f, worker, role, in, visit_own, NULL));
                continue;
            }
            RETURN_IF_FAILED(place_of(s, worker, role, in, &place));
            if (f->place_links[place] && in->collect.kind != COLLECTIVE_ALL_TO_ALL)
                continue;
            RETURN_IF_FAILED(ring_links(f, place, role, in));
        }
    }
    for (int place = 0; place < s->place_count; place++)
        for (int link = 0; f->place_links[place] && link < f->owners.links; link++)
            if (f->place_links[place][link])
                own(&f->owners.place[link], set_of(s, place));
    return RH_OK;
}

static bool unordered(const struct order *order, int a, int b)
{
    return !order_before(order, a, b) && !order_before(order, b, a);
}

/* Transfers of one worker that the list leaves unordered may meet on a link: to be safe, any two
 * do. */
static void judge_worker(const struct session *s, int worker, int list, bool *exclusive)
{
    const struct role *role = &s->plan->roles[plan_role_of(s->plan, worker)];
    const struct list *l = &role->lists[list];
    const struct order *order = session_compiled(s, worker, list)->order;
    int *transfers = memory_new_array((size_t)l->count, sizeof *transfers);
    int count = 0;
    for (int i = 0; i < l->count; i++)
        if (is_transfer(role, &l->instructions[i]))
            transfers[count++] = i;
    for (int a = 0; a < count; a++)
        for (int b = a + 1; b < count; b++)
            if (unordered(order, transfers[a], transfers[b]))
                exclusive[transfers[a]] = exclusive[transfers[b]] = false;
    free(transfers);
}

static enum rh_status judge_list(struct finding *f, int list)
{
    struct session *s = f->s;
    int lists = s->plan->roles[0].list_count;
    bool *place_alone = memory_new_array((size_t)s->place_count + 1, sizeof *place_alone);
    enum rh_status status = RH_OK;
    for (int place = 0; place < s->place_count; place++)
        place_alone[place] = f->place_links[place] && collective_alone(f, place);
    for (int worker = 0; worker < s->simulated && status == RH_OK; worker++) {
        const struct role *role = &s->plan->roles[plan_role_of(s->plan, worker)];
        const struct list *l = &role->lists[list];
        bool *exclusive = s->exclusive[worker * lists + list];
        for (int i = 0; i < l->count && status == RH_OK; i++) {
            const struct instruction *in = &l->instructions[i];
            int place = 0;
            exclusive[i] = true;
            if (!is_transfer(role, in))
                continue;
            if (in->kind != INSTRUCTION_COLLECT) {
                status = each_route(f, worker, role, in, visit_judge, &exclusive[i]);
                continue;
            }
            status = place_of(s, worker, role, in, &place);
            exclusive[i] = status == RH_OK && place_alone[place];
        }
        judge_worker(s, worker, list, exclusive);
        for (int i = 0; i < l->count; i++) {
            bool flow = is_transfer(role, &l->instructions[i]) && !exclusive[i];
            s->any_flow |= flow;
            s->network_flow |= flow && l->instructions[i].kind != INSTRUCTION_COPY;
        }
    }
    free(place_alone);
    return status;
}

/* The communicators of all lists, before anybody keeps a pointer to one; any_flow is set as if
 * nothing were exclusive. */
static enum rh_status make_places(struct session *s)
{
    int lists = s->plan->roles[0].list_count;
    for (int worker = 0; worker < s->simulated; worker++) {
        const struct role *role = &s->plan->roles[plan_role_of(s->plan, worker)];
        for (int list = 0; list < lists; list++)
            for (int i = 0; i < role->lists[list].count; i++) {
                const struct instruction *in = &role->lists[list].instructions[i];
                int place = 0;
                if (in->kind == INSTRUCTION_COLLECT)
                    RETURN_IF_FAILED(place_of(s, worker, role, in, &place));
                s->any_flow |= is_transfer(role, in);
                s->network_flow |= s->any_flow;
            }
    }
    return RH_OK;
}

enum rh_status session_find_exclusive(struct session *s)
{
    int lists = s->plan->roles[0].list_count;
    s->any_flow = s->network_flow = false;
    s->exclusive = memory_new_array((size_t)s->simulated * (size_t)lists, sizeof *s->exclusive);
    for (int worker = 0; worker < s->simulated; worker++)
        for (int list = 0; list < lists; list++)
            s->exclusive[worker * lists + list] = memory_new_array(
                (size_t)s->plan->roles[plan_role_of(s->plan, worker)].lists[list].count + 1,
                sizeof(bool));
    RETURN_IF_FAILED(make_places(s));
    if (s->options.cluster->native_path || s->options.fidelity == FIDELITY_MESSAGES)
        return RH_OK;
    s->any_flow = s->network_flow = false;
    struct finding f = {.s = s};
    f.owners.links = cluster_link_count(s->options.cluster);
    f.owners.worker = memory_new_array((size_t)f.owners.links, sizeof(int));
    f.owners.place = memory_new_array((size_t)f.owners.links, sizeof(int));
    enum rh_status status = RH_OK;
    for (int list = 0; list < lists && status == RH_OK; list++) {
        f.place_links = memory_new_array((size_t)s->place_count + 1, sizeof *f.place_links);
        status = claim_links(&f, list);
        if (status == RH_OK)
            status = judge_list(&f, list);
        for (int i = 0; i < s->place_count; i++)
            free(f.place_links[i]);
        free(f.place_links);
    }
    free(f.owners.worker);
    free(f.owners.place);
    return status;
}
