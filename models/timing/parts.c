/* parts.c -- names of a step's parts and of what a number rests on. */
#include "kvt/timing.h"

const char *kvt_step_part_name(enum kvt_step_part part)
{
    switch (part) {
    case KVT_PART_HOST:
        return "host";
    case KVT_PART_DENSE:
        return "dense";
    case KVT_PART_INDEX:
        return "index";
    case KVT_PART_RESOLVE:
        return "resolve";
    case KVT_PART_FETCH:
        return "fetch";
    case KVT_PART_ATTEND:
        return "attend";
    case KVT_PART_DRAFT:
        return "draft";
    case KVT_PART_SAMPLE:
        return "sampling";
    case KVT_PART_PREFILL:
        return "prefill";
    case KVT_PART_OTHER:
        return "other";
    case KVT_PARTS:
        break;
    }
    return "unknown";
}

const char *kvt_basis_name(enum kvt_basis basis)
{
    switch (basis) {
    case KVT_BASIS_EXACT:
        return "exact";
    case KVT_BASIS_MEASURED:
        return "measured";
    case KVT_BASIS_PROFILE:
        return "profile";
    case KVT_BASIS_EXTRAPOLATED:
        return "extrapolated";
    case KVT_BASIS_DATASHEET:
        return "datasheet";
    case KVT_BASIS_FITTED:
        return "fitted-to-paper";
    case KVT_BASIS_ASSUMED:
        return "assumed";
    }
    return "unknown";
}
