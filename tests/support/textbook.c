/* textbook.c -- replacement as papers have it, one row at a time. */
#include "textbook.h"

#include <check.h>
#include <string.h>

enum {
    NOBODY = ROW_STREAM_ROWS
};

void textbook_init(struct textbook *book, const char *policy, uint32_t capacity,
                   struct textbook_params params)
{
    memset(book, 0, sizeof *book);
    book->policy = policy;
    book->capacity = capacity;
    book->params = params;
    book->counts[TEXTBOOK_NOWHERE] = ROW_STREAM_ROWS;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void move(struct textbook *book, uint32_t row, enum textbook_place place)
{
    ck_assert_uint_lt(row, ROW_STREAM_ROWS);
    book->counts[book->places[row]]--;
    book->counts[place]++;
    book->places[row] = (uint8_t)place;
    book->came_at[row] = ++book->now;
}

static uint32_t oldest(const struct textbook *book, enum textbook_place place)
{
    uint32_t best = NOBODY;

    for (uint32_t row = 0; row < ROW_STREAM_ROWS; row++) {
        if (book->places[row] == place &&
            (best == NOBODY || book->came_at[row] < book->came_at[best]))
            best = row;
    }
    return best;
}

static bool is_full(const struct textbook *book)
{
    return book->counts[TEXTBOOK_FIRST] + book->counts[TEXTBOOK_SECOND] >= book->capacity;
}

static uint32_t share(const struct textbook *book, double fraction)
{
    return (uint32_t)(fraction * book->capacity);
}

static void make_ghost(struct textbook *book, uint32_t row)
{
    move(book, row, TEXTBOOK_FIRST_GHOST);
    if (book->counts[TEXTBOOK_FIRST_GHOST] > share(book, book->params.ghosts))
        move(book, oldest(book, TEXTBOOK_FIRST_GHOST), TEXTBOOK_NOWHERE);
}

/* ---- Policies: what a hit does, and a miss that the cache has room for or not ------------------
 */

static void lru(struct textbook *book, uint32_t row, bool hit)
{
    if (!hit && is_full(book))
        move(book, oldest(book, TEXTBOOK_FIRST), TEXTBOOK_NOWHERE);
    move(book, row, TEXTBOOK_FIRST);
}

static void fifo(struct textbook *book, uint32_t row, bool hit)
{
    if (!hit)
        lru(book, row, false);
}

/* As a queue whose used rows go round again. */
static void clock(struct textbook *book, uint32_t row, bool hit)
{
    book->uses[row] = hit;
    while (!hit && is_full(book)) {
        uint32_t victim = oldest(book, TEXTBOOK_FIRST);
        move(book, victim, book->uses[victim] > 0 ? TEXTBOOK_FIRST : TEXTBOOK_NOWHERE);
        book->uses[victim] = 0;
    }
    if (!hit)
        move(book, row, TEXTBOOK_FIRST);
}

static uint32_t first_from(const struct textbook *book, uint64_t time)
{
    uint32_t best = NOBODY;

    for (uint32_t row = 0; row < ROW_STREAM_ROWS; row++) {
        if (book->places[row] == TEXTBOOK_FIRST && book->came_at[row] >= time &&
            (best == NOBODY || book->came_at[row] < book->came_at[best]))
            best = row;
    }
    return best;
}

static void sieve(struct textbook *book, uint32_t row, bool hit)
{
    book->uses[row] = hit;
    while (!hit && is_full(book)) {
        uint32_t victim = first_from(book, book->hand);
        if (victim == NOBODY)
            victim = oldest(book, TEXTBOOK_FIRST);
        uint64_t came_at = book->came_at[victim];
        if (book->uses[victim] == 0)
            move(book, victim, TEXTBOOK_NOWHERE);
        book->uses[victim] = 0;
        book->hand = came_at + 1;
        if (first_from(book, book->hand) == NOBODY)
            book->hand = 0; /* from the oldest, not from the row that is about to come */
    }
    if (!hit)
        move(book, row, TEXTBOOK_FIRST);
}

static void s3fifo_evict(struct textbook *book)
{
    uint32_t least = share(book, book->params.small) > 1 ? share(book, book->params.small) : 1;
    bool is_small = book->counts[TEXTBOOK_FIRST] >= least;
    uint32_t victim = oldest(book, is_small ? TEXTBOOK_FIRST : TEXTBOOK_SECOND);

    if (is_small && book->uses[victim] < book->params.promote_hits) {
        make_ghost(book, victim);
        return;
    }
    while (is_small && victim != NOBODY && book->uses[victim] >= book->params.promote_hits) {
        move(book, victim, TEXTBOOK_SECOND);
        book->uses[victim] = 0;
        victim = oldest(book, TEXTBOOK_FIRST);
        if (victim != NOBODY && book->uses[victim] < book->params.promote_hits) {
            make_ghost(book, victim);
            return;
        }
    }
    for (;;) {
        victim = oldest(book, TEXTBOOK_SECOND);
        if (book->uses[victim] == 0)
            break;
        book->uses[victim] = (book->uses[victim] > 3 ? 3 : book->uses[victim]) - 1;
        move(book, victim, TEXTBOOK_SECOND);
    }
    move(book, victim, TEXTBOOK_NOWHERE);
}

/* Uses are counted without an end, and are 3 at most where that matters, as in libCacheSim. */
static void s3fifo(struct textbook *book, uint32_t row, bool hit)
{
    bool was_ghost = book->places[row] == TEXTBOOK_FIRST_GHOST;

    if (hit) {
        book->uses[row]++;
        return;
    }
    if (was_ghost)
        move(book, row, TEXTBOOK_NOWHERE);
    if (is_full(book))
        s3fifo_evict(book);
    move(book, row, was_ghost ? TEXTBOOK_SECOND : TEXTBOOK_FIRST);
    book->uses[row] = 0;
}

static void two_q(struct textbook *book, uint32_t row, bool hit)
{
    bool was_ghost = book->places[row] == TEXTBOOK_FIRST_GHOST;

    if (hit) {
        if (book->places[row] == TEXTBOOK_SECOND)
            move(book, row, TEXTBOOK_SECOND);
        return;
    }
    if (was_ghost)
        move(book, row, TEXTBOOK_NOWHERE);
    if (is_full(book)) {
        bool is_in = book->counts[TEXTBOOK_FIRST] > share(book, book->params.small) ||
                     book->counts[TEXTBOOK_SECOND] == 0;
        if (is_in)
            make_ghost(book, oldest(book, TEXTBOOK_FIRST));
        else
            move(book, oldest(book, TEXTBOOK_SECOND), TEXTBOOK_NOWHERE);
    }
    move(book, row, was_ghost ? TEXTBOOK_SECOND : TEXTBOOK_FIRST);
}

/* Figure 4 of the paper; p is the target. */
static void arc_replace(struct textbook *book, bool was_in_b2)
{
    double t1 = book->counts[TEXTBOOK_FIRST];
    bool from_t1 = t1 >= 1 && ((was_in_b2 && t1 == book->target) || t1 > book->target);

    if (from_t1 || book->counts[TEXTBOOK_SECOND] == 0)
        move(book, oldest(book, TEXTBOOK_FIRST), TEXTBOOK_FIRST_GHOST);
    else
        move(book, oldest(book, TEXTBOOK_SECOND), TEXTBOOK_SECOND_GHOST);
}

static void arc_miss(struct textbook *book, uint32_t row)
{
    const uint32_t *n = book->counts;
    uint32_t c = book->capacity, l1 = n[TEXTBOOK_FIRST] + n[TEXTBOOK_FIRST_GHOST];
    uint32_t l2 = n[TEXTBOOK_SECOND] + n[TEXTBOOK_SECOND_GHOST];

    if (l1 == c) {
        bool has_ghosts = n[TEXTBOOK_FIRST] < c;
        move(book, oldest(book, has_ghosts ? TEXTBOOK_FIRST_GHOST : TEXTBOOK_FIRST),
             TEXTBOOK_NOWHERE);
        if (has_ghosts)
            arc_replace(book, false);
    } else if (l1 + l2 >= c) {
        if (l1 + l2 == 2 * c)
            move(book, oldest(book, TEXTBOOK_SECOND_GHOST), TEXTBOOK_NOWHERE);
        arc_replace(book, false);
    }
    move(book, row, TEXTBOOK_FIRST);
}

static void arc(struct textbook *book, uint32_t row, bool hit)
{
    double b1 = book->counts[TEXTBOOK_FIRST_GHOST], b2 = book->counts[TEXTBOOK_SECOND_GHOST];
    bool in_b2 = book->places[row] == TEXTBOOK_SECOND_GHOST;

    if (!hit && book->places[row] == TEXTBOOK_NOWHERE) {
        arc_miss(book, row);
        return;
    }
    if (!hit) {
        double step = in_b2 ? b1 / b2 : b2 / b1;
        step = step > 1 ? step : 1;
        book->target = in_b2 ? book->target - step : book->target + step;
        book->target = book->target < 0 ? 0 : book->target;
        book->target = book->target > book->capacity ? book->capacity : book->target;
        arc_replace(book, in_b2);
    }
    move(book, row, TEXTBOOK_SECOND);
}

static void lfu(struct textbook *book, uint32_t row, bool hit)
{
    if (!hit && is_full(book)) {
        uint32_t victim = oldest(book, TEXTBOOK_FIRST);
        for (uint32_t other = 0; other < ROW_STREAM_ROWS; other++) {
            if (book->places[other] == TEXTBOOK_FIRST &&
                (book->uses[other] < book->uses[victim] ||
                 (book->uses[other] == book->uses[victim] &&
                  book->came_at[other] < book->came_at[victim])))
                victim = other;
        }
        move(book, victim, TEXTBOOK_NOWHERE);
    }
    book->uses[row] = hit ? book->uses[row] + 1 : 1;
    move(book, row, TEXTBOOK_FIRST);
}

/* Rows that become equal as all uses are halved stand in the order of the uses that they had:
 * theirs are made the times at which they came. */
static void lfu_age(struct textbook *book)
{
    uint64_t base = book->now;

    if (book->params.ageing_per_row == 0 ||
        ++book->accesses < (uint64_t)book->params.ageing_per_row * book->capacity)
        return;
    book->accesses = 0;
    uint64_t came_at[ROW_STREAM_ROWS];
    for (uint32_t row = 0; row < ROW_STREAM_ROWS; row++) {
        uint32_t before = 0;
        for (uint32_t other = 0; book->places[row] == TEXTBOOK_FIRST && other < ROW_STREAM_ROWS;
             other++)
            before += book->places[other] == TEXTBOOK_FIRST &&
                      (book->uses[other] < book->uses[row] ||
                       (book->uses[other] == book->uses[row] &&
                        book->came_at[other] < book->came_at[row]));
        came_at[row] = base + 1 + before;
    }
    memcpy(book->came_at, came_at, sizeof came_at);
    for (uint32_t row = 0; row < ROW_STREAM_ROWS; row++)
        book->uses[row] /= 2;
    book->now = base + 1 + ROW_STREAM_ROWS;
}

bool textbook_misses(struct textbook *book, uint32_t row)
{
    static const struct {
        const char *name;
        void (*read)(struct textbook *book, uint32_t row, bool hit);
    } policies[] = {{"access-lru", lru}, {"lru", lru},     {"fifo", fifo},
                    {"clock", clock},    {"sieve", sieve}, {"s3fifo", s3fifo},
                    {"2q", two_q},       {"arc", arc},     {"lfu", lfu}};
    bool hit = book->places[row] == TEXTBOOK_FIRST || book->places[row] == TEXTBOOK_SECOND;

    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        if (strcmp(policies[i].name, book->policy) != 0)
            continue;
        policies[i].read(book, row, hit);
        if (policies[i].read == lfu)
            lfu_age(book);
        return !hit;
    }
    ck_abort_msg("no textbook has \"%s\"", book->policy);
    return true;
}
