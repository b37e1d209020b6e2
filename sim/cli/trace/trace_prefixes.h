/* trace_prefixes.h -- how much of its prompts a trace could find again, were nothing ever lost. */
#ifndef KVT_CLI_TRACE_PREFIXES_H
#define KVT_CLI_TRACE_PREFIXES_H

#include "kvt/workload.h"

struct trace_prefixes {
    uint64_t requests;      /* of which it is known what their prompts consist of */
    uint64_t pages;         /* whole ones, of these prompts */
    uint64_t eligible;      /* of those, may be found: never the prompt's last token */
    uint64_t prompt_tokens; /* of all requests */
    /* Pages that have been seen, by key: [slot_count], a power of two, 0: empty; bit 0 of the
     * others: it was seen first in a prompt that might have found it. */
    uint64_t *slots;
    uint32_t slot_count, page_count, first_in_prompt;
    uint32_t level; /* of 2^level pages one is kept, by its key */
};

/* A request, in the order of arrival. Takes what is zeroed at first. */
KVT_CHECKED kvt_status trace_prefixes_add(struct trace_prefixes *prefixes,
                                          const struct kvt_request_spec *spec,
                                          struct kvt_error *err);
void trace_prefixes_free(struct trace_prefixes *prefixes);

/* Share of all prompt tokens that lie in pages which some request before had, answer and all. */
double trace_prefixes_found_share(const struct trace_prefixes *prefixes);

#endif
