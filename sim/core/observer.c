/* observer.c -- names of what an observer is told. */
#include "kvt/observer.h"

const char *kvt_transfer_kind_name(enum kvt_transfer_kind kind)
{
    switch (kind) {
    case KVT_TRANSFER_IMPORT:
        return "import";
    case KVT_TRANSFER_RECALL:
        return "recall";
    case KVT_TRANSFER_FILL:
        return "fill";
    case KVT_TRANSFER_BACKUP:
        return "backup";
    case KVT_TRANSFER_KINDS:
        break;
    }
    return "unknown";
}
