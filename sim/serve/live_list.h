/* live_list.h -- ordered lists of requests under way. */
#ifndef KVT_LIVE_LIST_H
#define KVT_LIVE_LIST_H

#include "kvt/error.h"
#include "kvt/rank.h"

/* At position `at`, at most count. */
KVT_CHECKED kvt_status live_list_insert(struct kvt_live_list *list, uint32_t at,
                                        struct kvt_live *live, struct kvt_error *err);
void live_list_remove_at(struct kvt_live_list *list, uint32_t at);
/* Index of a request, or count when it is not there. */
uint32_t live_list_find(const struct kvt_live_list *list, const struct kvt_live *live);

#endif
