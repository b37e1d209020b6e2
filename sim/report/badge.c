/* badge.c -- what a report rests on, in three claims, as JSON and as text. */
#include "kvt/badge.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"

static const struct {
    const char *key, *reason_key, *title;
} kinds[KVT_CLAIMS] = {
    [KVT_CLAIM_DECISIONS] = {"decisions", "decisions_reason", "decisions"},
    [KVT_CLAIM_KERNEL_TIME] = {"kernel_time", "kernel_time_reason", "kernel time"},
    [KVT_CLAIM_ENGINE] = {"engine", "engine_reason", "engine"},
};

static void say(struct kvt_claim *claim, const char *word, const char *fmt, ...) KVT_PRINTF(3, 4);
static void say(struct kvt_claim *claim, const char *word, const char *fmt, ...)
{
    va_list args;

    claim->in_range_share = (double)NAN;
    (void)snprintf(claim->word, sizeof claim->word, "%s", word);
    va_start(args, fmt);
    (void)vsnprintf(claim->reason, sizeof claim->reason, fmt, args);
    va_end(args);
}

/* ---- From facts to claims ------------------------------------------------------------------ */

static void claim_decisions(const struct kvt_badge_facts *facts, struct kvt_claim *claim)
{
    unsigned long long calls = facts->calls;

    if (!facts->on_gpu)
        say(claim, "no", "no GPU");
    else if (!facts->is_compared)
        say(claim, "no", "kvtide validate compares them");
    else if (facts->mismatches > 0)
        say(claim, "no", "%llu rounds or steps differ", (unsigned long long)facts->mismatches);
    else if (calls == 0)
        say(claim, "no", "nothing was decided");
    else if (facts->is_broken_off)
        say(claim, "no", "broken off, after %llu calls that agree", calls);
    else if (facts->scaled)
        say(claim, "yes", "%llu calls on the GPU, of %llu", (unsigned long long)facts->device_calls,
            calls);
    else
        say(claim, "yes", "%llu calls", calls);
}

static void claim_kernel_time(const struct kvt_badge_facts *facts, struct kvt_claim *claim)
{
    if (!facts->on_gpu)
        say(claim, "no", "%s", facts->timing ? facts->timing : "no GPU");
    else if (facts->timed_steps == 0)
        say(claim, "no", "nothing was timed");
    else if (!facts->is_attention_good)
        say(claim, "no", "of attention that is not right");
    else if (facts->not_representative)
        say(claim, "no", "%s", facts->not_representative);
    else
        say(claim, facts->is_beside ? "beside" : "yes", "%s%s%s", facts->gpu ? facts->gpu : "a GPU",
            facts->scaled ? ", " : "", facts->scaled ? facts->scaled : "");
    /* Times that do not count have no range. */
    if (!facts->on_gpu || strcmp(claim->word, "no") != 0)
        claim->in_range_share = facts->in_range_share;
}

void kvt_badge_of(const struct kvt_badge_facts *facts, struct kvt_badge *out)
{
    claim_decisions(facts, &out->claims[KVT_CLAIM_DECISIONS]);
    claim_kernel_time(facts, &out->claims[KVT_CLAIM_KERNEL_TIME]);
    say(&out->claims[KVT_CLAIM_ENGINE], facts->engine ? facts->engine : "no", "%s",
        facts->engine && facts->engine_reason ? facts->engine_reason : "");
}

/* One of the reasons between "; "? */
static bool has_reason(const char *reasons, const char *reason)
{
    size_t length = strlen(reason);

    for (const char *at = reasons; at; at = strstr(at, "; "), at = at ? at + 2 : NULL) {
        if (strncmp(at, reason, length) == 0 &&
            (at[length] == '\0' || strncmp(at + length, "; ", 2) == 0))
            return true;
    }
    return false;
}

void kvt_badge_join(struct kvt_badge *into, const struct kvt_badge *other)
{
    for (int k = 0; k < KVT_CLAIMS; k++) {
        struct kvt_claim *claim = &into->claims[k];
        const struct kvt_claim *next = &other->claims[k];
        size_t used = strlen(claim->reason);
        if (next->word[0] == '\0')
            continue;
        if (claim->word[0] == '\0') {
            *claim = *next;
            continue;
        }
        if (strcmp(claim->word, next->word) != 0)
            (void)snprintf(claim->word, sizeof claim->word, "no");
        if (!has_reason(claim->reason, next->reason))
            (void)snprintf(claim->reason + used, sizeof claim->reason - used, "%s%s",
                           used > 0 ? "; " : "", next->reason);
        claim->in_range_share = fmin(claim->in_range_share, next->in_range_share);
    }
}

/* ---- As JSON, and as text ------------------------------------------------------------------ */

enum {
    FULL_BYTES = KVT_CLAIM_REASON_BYTES + 40
};

static const char *word_of(const struct kvt_claim *claim)
{
    return claim->word[0] != '\0' ? claim->word : "no";
}

/* "NVIDIA H200, 97 % of steps in range" */
static const char *full_reason(const struct kvt_claim *claim, char out[FULL_BYTES])
{
    size_t used = (size_t)snprintf(out, FULL_BYTES, "%s", claim->reason);

    if (claim->word[0] != '\0' && !isnan(claim->in_range_share))
        (void)snprintf(out + used, FULL_BYTES - used, "%s%.0f %% of steps in range",
                       used > 0 ? ", " : "", 100 * claim->in_range_share);
    return out;
}

bool kvt_badge_add(cJSON *report, const struct kvt_badge *badge)
{
    cJSON *object = kvt_json_add_object(report, "badge");
    bool ok = object != NULL;

    for (int k = 0; k < KVT_CLAIMS && ok; k++) {
        char reason[FULL_BYTES];
        (void)full_reason(&badge->claims[k], reason);
        ok = kvt_json_add_text(object, kinds[k].key, word_of(&badge->claims[k])) &&
             (reason[0] == '\0' || kvt_json_add_text(object, kinds[k].reason_key, reason));
    }
    return ok;
}

bool kvt_badge_read(const cJSON *report, struct kvt_badge *out)
{
    const cJSON *object = kvt_json_find(report, "badge");

    if (!cJSON_IsObject(object))
        return false;
    for (int k = 0; k < KVT_CLAIMS; k++) {
        const cJSON *word = kvt_json_find(object, kinds[k].key);
        const cJSON *reason = kvt_json_find(object, kinds[k].reason_key);
        say(&out->claims[k], cJSON_IsString(word) ? word->valuestring : "no", "%s",
            cJSON_IsString(reason) ? reason->valuestring : "");
    }
    return true;
}

void kvt_badge_print(const struct kvt_badge *badge, char out[KVT_BADGE_TEXT_BYTES])
{
    size_t used = 0;

    out[0] = '\0';
    for (int k = 0; k < KVT_CLAIMS; k++) {
        char reason[FULL_BYTES];
        bool is_said = full_reason(&badge->claims[k], reason)[0] != '\0';
        used += (size_t)snprintf(out + used, KVT_BADGE_TEXT_BYTES - used, "%s%s %s%s%s%s",
                                 k > 0 ? " | " : "", kinds[k].title, word_of(&badge->claims[k]),
                                 is_said ? " (" : "", reason, is_said ? ")" : "");
    }
}
