/* rank_private.h -- what rank.c and boundary.c share. */
#ifndef KVT_RANK_PRIVATE_H
#define KVT_RANK_PRIVATE_H

enum {
    RANK_ACTIONS = 4096
}; /* that a residency policy can give at once */

#endif
