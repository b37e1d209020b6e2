/* tape_cache.h -- tapes kept from run to run, one file each, in a folder of bounded size. */
#ifndef KVT_TAPE_CACHE_H
#define KVT_TAPE_CACHE_H

#include "tape_reel.h"

/* Nothing here can fail a run: what cannot be read is recorded, what cannot be
 * written is not kept. */
struct tape_cache {
    char *folder;       /* NULL: nothing is kept */
    uint64_t seal;      /* of what every tape's key begins with */
    uint64_t bytes_max; /* that the folder's files may take; the oldest go first */
};

enum {
    TAPE_LOCK_NONE = -1, /* there is no lock to be had, and none is needed */
    TAPE_LOCK_BUSY = -2, /* another process or thread records this tape */
};

/* In `dir`, which is made when the first tape is written; NULL: keeps nothing. */
void tape_cache_init(struct tape_cache *cache, const char *dir, const struct reel_process *process);
void tape_cache_fini(struct tape_cache *cache);

/* Held while a tape is recorded, so that two processes do not record it both. A
 * process that ends, however it does, lets go of what it holds. */
int tape_cache_lock(const struct tape_cache *cache, const struct reel *reel);
void tape_cache_unlock(const struct tape_cache *cache, const struct reel *reel, int lock);

/* Takes what the folder has of the tape, if it is whole. */
void tape_cache_load(const struct tape_cache *cache, struct reel *reel);

/* Writes what is recorded, where that is more than the folder has. */
void tape_cache_store(const struct tape_cache *cache, struct reel *reel);

/* Removes the oldest files while there is more than bytes_max. */
void tape_cache_trim(const struct tape_cache *cache);

#endif
