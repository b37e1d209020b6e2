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

/* Without a GPU. */
static void claim_predicted(const struct kvt_badge_facts *facts, struct kvt_claim *claim)
{
    if (!facts->timing)
        say(claim, "no", "no GPU");
    else if (isnan(facts->in_range_share))
        say(claim, "no", "%s", facts->timing);
    else
        say(claim, "no", "%s, %.0f %% of steps in range", facts->timing,
            100 * facts->in_range_share);
}

static void claim_kernel_time(const struct kvt_badge_facts *facts, struct kvt_claim *claim)
{
    if (!facts->on_gpu)
        claim_predicted(facts, claim);
    else if (facts->timed_steps == 0)
        say(claim, "no", "nothing was timed");
    else if (!facts->is_attention_good)
        say(claim, "no", "of attention that is not right");
    else if (facts->not_representative)
        say(claim, "no", "%s", facts->not_representative);
    else
        say(claim, facts->is_beside ? "beside" : "yes", "%s, %s%s%.0f %% of steps in range",
            facts->gpu ? facts->gpu : "a GPU", facts->scaled ? facts->scaled : "",
            facts->scaled ? ", " : "", 100 * (double)facts->in_range / (double)facts->timed_steps);
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
        if (strcmp(claim->word, next->word) != 0)
            (void)snprintf(claim->word, sizeof claim->word, "no");
        if (!has_reason(claim->reason, next->reason))
            (void)snprintf(claim->reason + used, sizeof claim->reason - used, "%s%s",
                           used > 0 ? "; " : "", next->reason);
    }
}

/* ---- As JSON, and as text ------------------------------------------------------------------ */

bool kvt_badge_add(cJSON *report, const struct kvt_badge *badge)
{
    cJSON *object = kvt_json_add_object(report, "badge");
    bool ok = object != NULL;

    for (int k = 0; k < KVT_CLAIMS && ok; k++) {
        const struct kvt_claim *claim = &badge->claims[k];
        ok = kvt_json_add_text(object, kinds[k].key, claim->word) &&
             (claim->reason[0] == '\0' ||
              kvt_json_add_text(object, kinds[k].reason_key, claim->reason));
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
        const struct kvt_claim *claim = &badge->claims[k];
        bool has_reason_too = claim->reason[0] != '\0';
        used +=
            (size_t)snprintf(out + used, KVT_BADGE_TEXT_BYTES - used, "%s%s %s%s%s%s",
                             k > 0 ? " | " : "", kinds[k].title, claim->word,
                             has_reason_too ? " (" : "", claim->reason, has_reason_too ? ")" : "");
    }
}
