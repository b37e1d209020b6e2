/* contract_host.h -- a rank as a residency policy sees it, kept in the plainest way.
 *
 * Requests come, grow and go; pages of history are moved by what the policy asks for, one by one,
 * and each action is checked against the contract that it could break. Bytes are counted in whole
 * pages, and nothing is timed: a transfer has ended at the next boundary. */
#ifndef KVT_CLI_CONTRACT_HOST_H
#define KVT_CLI_CONTRACT_HOST_H

#include "contract.h"
#include "kvt/policy.h"

enum {
    HOST_REQUESTS_MAX = 12,
    HOST_PAGES_MAX = 128,
    HOST_PAGE_WORDS = HOST_PAGES_MAX / 64,
    HOST_PAGE_BYTES = 20000,
    HOST_POOL_PAGES = 300,
    HOST_HOT_TOKENS = 4096,
    HOST_HOT_PAGES = 9, /* that a hot cache, tail and staging take as much as */
    HOST_ACTIONS = 1024
};

struct host_request {
    uint32_t id, context_tokens, generated_tokens, left_tokens;
    uint32_t hot_tokens, next_hot_tokens, next_first; /* hot_tokens 0: whole */
    uint32_t backed_tokens, queued_tokens;
    uint64_t missed_rows, selected_rows;
    uint64_t ready[HOST_PAGE_WORDS], filling[HOST_PAGE_WORDS]; /* optional ones */
    uint64_t resident[HOST_PAGE_WORDS];                        /* as it is shown */
    uint16_t hits[HOST_PAGES_MAX];
    float scores[HOST_PAGES_MAX];
    uint32_t future[HOST_PAGES_MAX];
};

struct host {
    struct contract_play *play;
    struct kvt_residency_needs needs;
    bool shows_hits, shows_scores, shows_page_future;
    kvt_ns now_ns;
    uint32_t next_id, queue_length;
    struct host_request requests[HOST_REQUESTS_MAX]; /* [count] ascending id */
    uint32_t count;
};

/* What a view stands on. */
struct host_view {
    struct kvt_residency_view view;
    struct kvt_residency_request requests[HOST_REQUESTS_MAX];
};

/* sees_future: what requests will still generate is in it. */
void host_view_make(struct host *host, bool sees_future, struct host_view *out);

/* Pages, or as much as they take, that all requests hold: at times more than the pool has. */
uint32_t host_held_pages(const struct host *host);
uint32_t host_free_pages(const struct host *host);
uint32_t host_reclaimable_pages(const struct host *host);
/* Pages that are backed and outside the tail, and pages in HBM that must be there. */
uint32_t host_clean_pages(const struct host_request *request);
uint32_t host_kept_pages(const struct host_request *request);

/* Carries one action out. reclaims: only releases and demotions are allowed. */
KVT_CHECKED kvt_status host_act(struct host *host, const struct kvt_residency_action *action,
                                bool reclaims, struct kvt_error *err);

/* A step: transfers have ended, each request has grown by a few tokens, some have gone, hot caches
 * that are due are given where there is room. */
void host_step(struct host *host);

/* A request of so many tokens, its highest `landed` pages in HBM; NULL: there is no room. */
struct host_request *host_admit(struct host *host, uint32_t tokens, uint32_t landed,
                                bool write_later);
/* Pages that may land of one of so many tokens. */
uint32_t host_landing_pages(uint32_t tokens);
void host_drop(struct host *host, uint32_t index);

#endif
