/* kvt/prefill.h -- how long GPUs compute a prompt, by their data sheet. */
#ifndef KVT_PREFILL_H
#define KVT_PREFILL_H

#include "kvt/hardware.h"
#include "kvt/llm.h"

KVT_BEGIN_DECLS

struct kvt_prefill_env {
    const struct kvt_llm *llm;
    const struct kvt_hardware *hardware;
    uint32_t tp, ep;         /* as of a decode pool; a prompt is computed by tp GPUs */
    double flops_efficiency; /* share of the data sheet's flops that is reached */
    bool dense_is_fp8;       /* format of projections, experts and index scores; else bf16 */
};

/* Everything as ns, so that a prompt is sums. Borrows the model. */
struct kvt_prefill_cost {
    const struct kvt_llm *llm;
    double math_ns;     /* projections and experts, of one token */
    double exchange_ns; /* collectives, of one token */
    double read_ns;     /* weights that every pass reads ... */
    double expert_ns;   /* ... and those of all experts */
    double untouched;   /* share of the experts that one token leaves alone */
    double launch_ns;   /* of a pass */
    double context_ns;  /* index scores, of one token and one token up to it */
    double row_ns;      /* attention, of one token and one row in one layer */
};

/* Refuses (KVT_ERR_INVALID, naming the hardware) where the data sheet lacks a rate that is
 * needed. */
KVT_CHECKED kvt_status kvt_prefill_cost_of(const struct kvt_prefill_env *env,
                                           struct kvt_prefill_cost *out, struct kvt_error *err);

/* Tokens [from, to) of a prompt beside steps that read the weights anyway: collectives, index
 * scores, attention, and the math of the rest. */
double kvt_prefill_beside_ns(const struct kvt_prefill_cost *cost, double from_tokens,
                             double to_tokens);
/* In passes of their own: launches, and what reading the weights takes longer than the math. */
double kvt_prefill_alone_ns(const struct kvt_prefill_cost *cost, double from_tokens,
                            double to_tokens);

KVT_END_DECLS
#endif
