/* turns.c -- requests of a trace that wait for one before them.
 *
 *     offer: first of its session, or one that follows nobody: out at once
 *            session idle:  due at max(its own time, end of the last + think)
 *            else:          to the end of its session's line
 *     end:   the last one under way of a session: the first of its line is due at
 *            max(its own time, now + think)
 *     take:  the one due first; equals: the one offered first
 *
 * A session is kept for good, in 40 bytes, for its next turn may come at any time. */
#include "turns.h"

#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"

#define NONE UINT32_MAX

struct session {
    uint64_t id;
    kvt_ns ended_ns;      /* of the last that ended; KVT_NS_NEVER: none has */
    uint32_t under_way;   /* given and not ended, or due */
    uint32_t first, last; /* of its line, or NONE */
};

struct held {
    struct kvt_request_spec spec;
    uint64_t *keys; /* [spec.page_key_count] */
    kvt_ns due_ns;
    uint64_t ordinal; /* in which it was offered */
    uint32_t session;
    uint32_t next; /* in its line, or among the unused */
};

struct kvt_turns {
    struct session *sessions; /* [session_capacity] */
    uint32_t *table;          /* [2 * session_capacity], a power of two */
    uint32_t session_count, session_capacity;
    struct held *held; /* [held_capacity] */
    uint32_t *due;     /* heap [due_count of held_capacity] by (due_ns, ordinal) */
    uint32_t held_count, held_used, held_capacity, due_count, unused;
    uint64_t offered;
    uint64_t *given_keys; /* of the request last taken */
};

struct kvt_turns *kvt_turns_new(void)
{
    struct kvt_turns *turns = calloc(1, sizeof *turns);
    if (turns != NULL)
        turns->unused = NONE;
    return turns;
}

void kvt_turns_free(struct kvt_turns *turns)
{
    if (turns == NULL)
        return;
    for (uint32_t i = 0; i < turns->held_used; i++)
        free(turns->held[i].keys);
    free(turns->held);
    free(turns->due);
    free(turns->sessions);
    free(turns->table);
    free(turns->given_keys);
    free(turns);
}

/* ---- Sessions ---------------------------------------------------------------------------- */

static uint32_t *place_of(const struct kvt_turns *turns, uint32_t *table, uint32_t capacity,
                          uint64_t id)
{
    uint32_t mask = 2 * capacity - 1;
    uint32_t i = (uint32_t)kvt_mix64(id + 1) & mask;
    while (table[i] != NONE && turns->sessions[table[i]].id != id)
        i = (i + 1) & mask;
    return &table[i];
}

static kvt_status grow_sessions(struct kvt_turns *turns, struct kvt_error *err)
{
    uint32_t capacity = turns->session_capacity > 0 ? 2 * turns->session_capacity : 64;
    uint32_t *table = malloc(2 * (size_t)capacity * sizeof *table);
    struct session *sessions = realloc(turns->sessions, capacity * sizeof *sessions);
    if (sessions != NULL)
        turns->sessions = sessions;
    if (table == NULL || sessions == NULL) {
        free(table);
        return kvt_fail_nomem(err, "the sessions of a trace");
    }
    memset(table, 0xff, 2 * (size_t)capacity * sizeof *table);
    for (uint32_t i = 0; i < turns->session_count; i++)
        *place_of(turns, table, capacity, sessions[i].id) = i;
    free(turns->table);
    turns->table = table;
    turns->session_capacity = capacity;
    return KVT_OK;
}

static kvt_status find_session(struct kvt_turns *turns, uint64_t id, uint32_t *out,
                               struct kvt_error *err)
{
    if (turns->session_count == turns->session_capacity) {
        kvt_status status = grow_sessions(turns, err);
        if (status != KVT_OK)
            return status;
    }
    uint32_t *place = place_of(turns, turns->table, turns->session_capacity, id);
    if (*place == NONE) {
        *place = turns->session_count++;
        turns->sessions[*place] =
            (struct session){.id = id, .ended_ns = KVT_NS_NEVER, .first = NONE, .last = NONE};
    }
    *out = *place;
    return KVT_OK;
}

/* ---- Requests held ------------------------------------------------------------------------- */

static kvt_status grow_held(struct kvt_turns *turns, struct kvt_error *err)
{
    uint32_t capacity = turns->held_capacity > 0 ? 2 * turns->held_capacity : 16;
    struct held *held = realloc(turns->held, capacity * sizeof *held);
    if (held != NULL)
        turns->held = held;
    uint32_t *due = realloc(turns->due, capacity * sizeof *due);
    if (due != NULL)
        turns->due = due;
    if (held == NULL || due == NULL)
        return kvt_fail_nomem(err, "the turns of a trace");
    turns->held_capacity = capacity;
    return KVT_OK;
}

/* A copy of the request, in neither a line nor the heap. */
static kvt_status hold(struct kvt_turns *turns, const struct kvt_request_spec *spec,
                       uint32_t session, uint32_t *out, struct kvt_error *err)
{
    if (turns->unused == NONE && turns->held_used == turns->held_capacity) {
        kvt_status status = grow_held(turns, err);
        if (status != KVT_OK)
            return status;
    }
    uint64_t *keys = NULL;
    if (spec->page_key_count > 0) {
        keys = malloc(spec->page_key_count * sizeof *keys);
        if (keys == NULL)
            return kvt_fail_nomem(err, "the turns of a trace");
        memcpy(keys, spec->page_keys, spec->page_key_count * sizeof *keys);
    }
    *out = turns->unused;
    if (*out != NONE)
        turns->unused = turns->held[*out].next;
    else
        *out = turns->held_used++;
    turns->held[*out] = (struct held){
        .spec = *spec, .keys = keys, .ordinal = turns->offered++, .session = session, .next = NONE};
    turns->held_count++;
    return KVT_OK;
}

static bool is_before(const struct kvt_turns *turns, uint32_t a, uint32_t b)
{
    const struct held *first = &turns->held[a];
    const struct held *second = &turns->held[b];
    return first->due_ns != second->due_ns ? first->due_ns < second->due_ns
                                           : first->ordinal < second->ordinal;
}

/* Its own time, or think_ns after the end of the one before it, the later. */
static void make_due(struct kvt_turns *turns, uint32_t h, kvt_ns ended_ns)
{
    struct held *held = &turns->held[h];
    kvt_ns think_ns = held->spec.think_ns;
    kvt_ns after_ns = think_ns < INT64_MAX - ended_ns ? ended_ns + think_ns : INT64_MAX;
    held->due_ns = held->spec.arrival_ns > after_ns ? held->spec.arrival_ns : after_ns;
    turns->sessions[held->session].under_way++;
    uint32_t at = turns->due_count++;
    while (at > 0 && is_before(turns, h, turns->due[(at - 1) / 2])) {
        turns->due[at] = turns->due[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    turns->due[at] = h;
}

static uint32_t pop_due(struct kvt_turns *turns)
{
    uint32_t first = turns->due[0];
    uint32_t last = turns->due[--turns->due_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= turns->due_count)
            break;
        if (child + 1 < turns->due_count &&
            is_before(turns, turns->due[child + 1], turns->due[child]))
            child++;
        if (!is_before(turns, turns->due[child], last))
            break;
        turns->due[at] = turns->due[child];
        at = child;
    }
    turns->due[at] = last;
    return first;
}

/* ---- What the replay asks -------------------------------------------------------------------- */

kvt_status kvt_turns_offer(struct kvt_turns *turns, struct kvt_request_spec *spec, bool *is_held,
                           struct kvt_error *err)
{
    uint32_t s = NONE;
    kvt_status status = find_session(turns, spec->session, &s, err);
    if (status != KVT_OK)
        return status;
    struct session *session = &turns->sessions[s];
    bool is_first = session->under_way == 0 && session->ended_ns == KVT_NS_NEVER;
    *is_held = spec->follows && !is_first;
    if (!*is_held) {
        session->under_way++;
        spec->tag = s;
        return KVT_OK;
    }
    uint32_t h = NONE;
    status = hold(turns, spec, s, &h, err);
    if (status != KVT_OK)
        return status;
    if (session->under_way == 0) {
        make_due(turns, h, session->ended_ns);
        return KVT_OK;
    }
    if (session->last != NONE)
        turns->held[session->last].next = h;
    else
        session->first = h;
    session->last = h;
    return KVT_OK;
}

kvt_ns kvt_turns_due_ns(const struct kvt_turns *turns)
{
    return turns->due_count > 0 ? turns->held[turns->due[0]].due_ns : KVT_NS_NEVER;
}

void kvt_turns_take(struct kvt_turns *turns, struct kvt_request_spec *spec)
{
    uint32_t h = pop_due(turns);
    struct held *held = &turns->held[h];
    free(turns->given_keys);
    turns->given_keys = held->keys;
    *spec = held->spec;
    spec->arrival_ns = held->due_ns;
    spec->page_keys = held->keys;
    spec->tag = held->session;
    held->keys = NULL;
    held->next = turns->unused;
    turns->unused = h;
    turns->held_count--;
}

void kvt_turns_end(struct kvt_turns *turns, uint64_t tag, kvt_ns now_ns)
{
    struct session *session = &turns->sessions[tag];
    session->under_way--;
    session->ended_ns = now_ns;
    if (session->under_way > 0 || session->first == NONE)
        return;
    uint32_t h = session->first;
    session->first = turns->held[h].next;
    if (session->first == NONE)
        session->last = NONE;
    turns->held[h].next = NONE;
    make_due(turns, h, now_ns);
}

uint64_t kvt_turns_held(const struct kvt_turns *turns)
{
    return turns->held_count;
}
