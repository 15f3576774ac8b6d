/* Where streams meet: collectives start when their last member arrives, messages when both ends do.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/simgrid/sim.h"
#include "base/memory.h"

struct meeting {
    struct meeting *next;
    const struct meeting_place *place;
    int execution, ordinal; /* of this place's collectives in the list */
    int expected, arrived, left;
    double start, end;
    bool done;
    struct sim_stream **members;
};

/* One half of a message that waits for the other. */
struct mail {
    struct mail *next;
    const char *stream, *name; /* interned */
    int group, from, to, execution;
    struct sim_stream *poster;
    double posted, start, end;
    bool exclusive, done;
};

struct meetings {
    struct meeting *open;
    struct mail *mails;
};

struct meetings *meetings_new(void)
{
    return memory_new(sizeof(struct meetings));
}

void meetings_free(struct meetings *m)
{
    while (m->open) {
        struct meeting *next = m->open->next;
        free(m->open->members);
        free(m->open);
        m->open = next;
    }
    while (m->mails) {
        struct mail *next = m->mails->next;
        free(m->mails);
        m->mails = next;
    }
    free(m);
}

static bool is_exclusive(const struct sim_stream *s, int index)
{
    const struct session *session = s->sim->session;
    int lists = session->plan->roles[0].list_count;
    return session->exclusive[s->worker->worker * lists + s->worker->issue_list][index];
}

/* Which of its place's collectives in the running list this is. */
static int ordinal_of(const struct sim_stream *s, int index, const struct instruction *in)
{
    const struct role *role = &s->sim->session->plan->roles[s->worker->role];
    const struct list *list = &role->lists[s->worker->issue_list];
    const char *stream = role->streams[role->parts[in->collect.part_first].stream].name;
    int ordinal = 0;
    for (int i = 0; i < index; i++) {
        const struct instruction *other = &list->instructions[i];
        if (other->kind == INSTRUCTION_COLLECT && other->collect.group == in->collect.group &&
            role->streams[role->parts[other->collect.part_first].stream].name == stream)
            ordinal++;
    }
    return ordinal;
}

static struct meeting *find_meeting(struct sim_stream *s, struct meeting_place *place, int ordinal)
{
    struct meetings *meetings = s->sim->meetings;
    for (struct meeting *m = meetings->open; m; m = m->next)
        if (m->place == place && m->execution == s->worker->execution && m->ordinal == ordinal)
            return m;
    struct meeting *m = memory_new(sizeof *m);
    *m = (struct meeting){.next = meetings->open,
                          .place = place,
                          .execution = s->worker->execution,
                          .ordinal = ordinal,
                          .expected = place->simulated * place->parts};
    m->members = memory_new_array((size_t)m->expected, sizeof *m->members);
    m->left = m->expected;
    meetings->open = m;
    return m;
}

static void forget_meeting(struct meetings *meetings, struct meeting *m)
{
    struct meeting **at = &meetings->open;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    free(m->members);
    free(m);
}

/* What NCCL runs takes a share of its devices. */
static void hold(struct sim *sim, int device, int change)
{
    int before = sim->collectives[device];
    sim->collectives[device] += change;
    bool changes = (before > 0) != (sim->collectives[device] > 0);
    double share =
        cluster_device_model(sim->session->options.cluster, device)->collective_compute_share;
    if (changes && share > 0 && !sim->session->options.cluster->native_path)
        sg_host_set_pstate(sim->hosts[device], sim->collectives[device] > 0);
}

static void hold_members(const struct meeting *m, int change)
{
    for (int i = 0; i < m->expected; i++)
        hold(m->members[i]->sim, m->members[i]->device, change);
}

/* Rings that everybody feeds step by step; a broadcast's pipeline is a flow in either fidelity. */
static bool goes_in_steps(enum collective_kind kind)
{
    return kind == COLLECTIVE_ALL_REDUCE || kind == COLLECTIVE_ALL_GATHER ||
           kind == COLLECTIVE_REDUCE_SCATTER;
}

static void inject(struct sim_stream *s, struct communicator *c, enum collective_kind kind,
                   const struct collective_cost *cost)
{
    double longest = 0;
    struct flow *flows = memory_new_array((size_t)cost->flow_count, sizeof *flows);
    if (s->sim->session->options.fidelity == FIDELITY_MESSAGES && goes_in_steps(kind)) {
        stream_ring_messages(s, c, cost);
        free(flows);
        return;
    }
    for (int i = 0; i < cost->flow_count; i++) {
        const struct collective_flow *flow = &cost->flows[i];
        flows[i] = (struct flow){communicator_device(c, flow->from),
                                 communicator_device(c, flow->to), flow->channel, flow->bytes, 0};
        struct route route;
        if (!s->sim->session->options.cluster->native_path &&
            cluster_route(s->sim->session->options.cluster, flows[i].from, flows[i].to,
                          flows[i].channel, &route) == RH_OK &&
            route.latency_seconds > longest)
            longest = route.latency_seconds;
    }
    stream_flows(s, flows, cost->flow_count);
    double rest = cost->latency_seconds - longest; /* the flows paid their links' latency once */
    if (rest > 0)
        sg_actor_sleep_for(rest);
    free(flows);
}

static void run_collective(struct sim_stream *s, struct meeting *m, int index,
                           const struct instruction *in)
{
    struct sim *sim = s->sim;
    struct session *session = sim->session;
    const struct role *role = &session->plan->roles[s->worker->role];
    struct communicator *c = m->place->communicator;
    int members = m->place->worker_count * m->place->parts;
    struct collective_cost cost;
    enum rh_status status =
        collective_price(c, in->collect.kind, session_collective_bytes(role, in, members),
                         session_root(session, m->place, in), &cost);
    if (status != RH_OK) {
        sim_fail(sim, status);
        m->end = m->start;
        return;
    }
    bool slows = session->any_exec && members > 1;
    bool formula = members < 2 || is_exclusive(s, index);
    if (slows || !formula)
        sim_sleep_until(m->start);
    if (slows)
        hold_members(m, 1);
    m->end = m->start + cost.seconds;
    if (!formula) {
        inject(s, c, in->collect.kind, &cost);
        m->end = simgrid_get_clock();
    }
    if (slows) {
        sim_sleep_until(m->end);
        hold_members(m, -1);
    }
    for (int k = 0; k < LINK_CLASS_COUNT && sim_counts(sim, s->worker); k++)
        sim->link_class_bytes[k] += cost.link_class_bytes[k];
}

void stream_collect(struct sim_stream *s, int index, const struct instruction *in)
{
    struct session *session = s->sim->session;
    const struct role *role = &session->plan->roles[s->worker->role];
    const char *stream = role->streams[role->parts[in->collect.part_first].stream].name;
    struct meeting_place *place = NULL;
    if (session_place(session, s->worker->worker, in->collect.group, stream, in->collect.part_count,
                      in, &place) != RH_OK) {
        sim_fail(s->sim, RH_FAILED);
        return;
    }
    struct meeting *m = find_meeting(s, place, ordinal_of(s, index, in));
    m->members[m->arrived++] = s;
    if (m->arrived == 1 || s->clock > m->start)
        m->start = s->clock;
    if (m->arrived == m->expected) {
        run_collective(s, m, index, in);
        m->done = true;
        for (int i = 0; i < m->expected; i++)
            if (m->members[i] != s)
                sg_sem_release(m->members[i]->wake);
    }
    while (!m->done)
        sg_sem_acquire(s->wake);
    s->clock = m->end;
    sim_add_span(s->sim, s, in->name, in->work, in->microbatch, m->start, m->end, true, false);
    if (--m->left == 0)
        forget_meeting(s->sim->meetings, m);
}

static struct mail *take_mail(struct meetings *meetings, const struct mail *like)
{
    for (struct mail *mail = meetings->mails; mail; mail = mail->next)
        if (!mail->done && mail->stream == like->stream && mail->name == like->name &&
            mail->group == like->group && mail->from == like->from && mail->to == like->to &&
            mail->execution == like->execution && mail->poster != like->poster)
            return mail;
    return NULL;
}

static void forget_mail(struct meetings *meetings, struct mail *mail)
{
    struct mail **at = &meetings->mails;
    while (*at != mail)
        at = &(*at)->next;
    *at = mail->next;
    free(mail);
}

/* A message whose two ends are there: by formula, or a flow that joins those of the same exchange.
 */
struct matched {
    struct mail *mail;
    struct flow flow;
    double start, seconds, start_up;
    bool formula;
};

static void match(struct sim_stream *s, struct matched *match, struct mail *mail, bool exclusive,
                  double bytes)
{
    struct session *session = s->sim->session;
    struct cluster *cluster = session->options.cluster;
    double latency = 0;
    int from = mail->from == s->worker->worker ? s->device : mail->poster->device;
    int to = mail->from == s->worker->worker ? mail->poster->device : s->device;
    *match = (struct matched){.mail = mail,
                              .flow = {from, to, 0, bytes, 0},
                              .start = s->clock > mail->posted ? s->clock : mail->posted,
                              .formula = exclusive && mail->exclusive};
    if (cluster->native_path)
        return;
    if (transfer_price(cluster, from, to, bytes, &match->seconds, &latency) != RH_OK)
        sim_fail(s->sim, RH_FAILED);
    if (cluster->collectives == COLLECTIVES_NCCL)
        match->start_up = cluster_device_model(cluster, from)->copy_seconds;
    sim_count_route(s->sim, s, from, to, bytes);
}

/* Brings matched messages to their end: those that have their links to themselves by formula, the
 * others as flows that start together. Compute beside them is slowed as by a collective. */
static double complete(struct sim_stream *s, struct matched *matches, int count)
{
    struct flow *flows = memory_new_array((size_t)count, sizeof *flows);
    double start = s->clock;
    double end = s->clock;
    int flow_count = 0;
    bool slows = s->sim->session->any_exec;
    for (int i = 0; i < count; i++) {
        double ready = matches[i].start + (matches[i].formula ? 0 : matches[i].start_up);
        start = ready > start ? ready : start;
        if (!matches[i].formula)
            flows[flow_count++] = matches[i].flow;
    }
    if (count && (flow_count || slows))
        sim_sleep_until(start);
    for (int i = 0; i < count && slows; i++) {
        hold(s->sim, matches[i].flow.from, 1);
        hold(s->sim, matches[i].flow.to, 1);
    }
    stream_flows(s, flows, flow_count);
    for (int i = 0, flow = 0; i < count; i++) {
        struct mail *mail = matches[i].mail;
        mail->start = matches[i].start;
        mail->end =
            matches[i].formula ? matches[i].start + matches[i].seconds : flows[flow++].end_seconds;
        end = mail->end > end ? mail->end : end;
    }
    if (count && slows)
        sim_sleep_until(end);
    for (int i = 0; i < count; i++) {
        struct mail *mail = matches[i].mail;
        hold(s->sim, matches[i].flow.from, slows ? -1 : 0);
        hold(s->sim, matches[i].flow.to, slows ? -1 : 0);
        mail->done = true;
        sim_add_span(s->sim, s, mail->name, WORK_COMMUNICATION, -1, mail->start, mail->end, true,
                     false);
        sg_sem_release(mail->poster->wake);
    }
    free(flows);
    return end;
}

void stream_exchange(struct sim_stream *s, int index, const struct instruction *in)
{
    struct session *session = s->sim->session;
    const struct role *role = &session->plan->roles[s->worker->role];
    struct meetings *meetings = s->sim->meetings;
    int most = in->exchange.message_count;
    struct matched *matches = memory_new_array((size_t)most, sizeof *matches);
    struct mail **posted = memory_new_array((size_t)most, sizeof *posted);
    int match_count = 0;
    int posted_count = 0;
    for (int i = 0; i < most; i++) {
        const struct message *m = &role->messages[in->exchange.message_first + i];
        if (m->stream != s->stream)
            continue;
        int peer = session_peer(session, s->worker->worker, in->exchange.group, m->peer);
        struct mail like = {.stream = role->streams[m->stream].name,
                            .name = m->name,
                            .group = in->exchange.group,
                            .from = m->send ? s->worker->worker : peer,
                            .to = m->send ? peer : s->worker->worker,
                            .execution = s->worker->execution,
                            .poster = s,
                            .posted = s->clock,
                            .exclusive = is_exclusive(s, index)};
        struct mail *other = take_mail(meetings, &like);
        if (other) {
            match(s, &matches[match_count++], other, like.exclusive,
                  (double)type_bytes(&role->views[m->view].type));
            continue;
        }
        struct mail *mail = memory_new(sizeof *mail);
        *mail = like;
        mail->next = meetings->mails;
        meetings->mails = mail;
        posted[posted_count++] = mail;
    }
    double end = complete(s, matches, match_count);
    for (int i = 0; i < posted_count; i++) {
        while (!posted[i]->done)
            sg_sem_acquire(s->wake);
        end = posted[i]->end > end ? posted[i]->end : end;
        sim_add_span(s->sim, s, posted[i]->name, WORK_COMMUNICATION, -1, posted[i]->start,
                     posted[i]->end, true, false);
        forget_mail(meetings, posted[i]);
    }
    s->clock = end > s->clock ? end : s->clock;
    free(matches);
    free(posted);
}
