/* kvt/request.h -- what is kept of every request, for ever. */
#ifndef KVT_REQUEST_H
#define KVT_REQUEST_H

#include "kvt/base.h"

KVT_BEGIN_DECLS

enum kvt_request_status {
    KVT_REQUEST_WAITING = 0, /* arrived, not admitted (or put aside) */
    KVT_REQUEST_PREFILLING,  /* in the prefill pool */
    KVT_REQUEST_IMPORTING,   /* admitted: its memory is held, its history is coming in */
    KVT_REQUEST_RUNNING,     /* in the running batch */
    KVT_REQUEST_COMPLETED,
    KVT_REQUEST_UNSERVABLE, /* could never fit: dropped on arrival */
    KVT_REQUEST_STATUSES
};
const char *kvt_request_status_name(enum kvt_request_status status); /* "waiting", ... */

/* One line of requests.csv. Times are KVT_NS_NEVER until they come. */
struct kvt_request_record {
    kvt_ns arrival_ns;
    kvt_ns admitted_ns;    /* the first time, where it was put aside in between */
    kvt_ns first_token_ns; /* TTFT = first_token_ns - arrival_ns */
    kvt_ns last_token_ns;  /* the newest delivered */
    kvt_ns finished_ns;    /* TPOT = (finished_ns - first_token_ns) / (output_tokens - 1) */
    uint64_t session;      /* UINT64_MAX: none */
    uint64_t line;         /* of the trace file; 0: generated */
    uint64_t missed_rows;  /* of the calls that were followed exactly */
    uint64_t selected_rows;
    uint32_t input_tokens, output_tokens, generated_tokens;
    uint32_t prefix_hit_tokens; /* of the prompt, found when it was admitted first */
    uint32_t turn;
    uint32_t rank; /* UINT32_MAX before routing */
    uint16_t slo_class, preemptions;
    uint16_t interruptions; /* by faults */
    uint16_t phase;         /* of the workload, in which it arrived */
    uint16_t kind;          /* of workload.classes; 0 where there are none */
    uint8_t status;         /* enum kvt_request_status */
};

KVT_END_DECLS
#endif
