/* page_keys.c -- keys of pages, run by run. */
#include "kvt/page_keys.h"

#include <stdlib.h>

#include "kvt/hash.h"

/* A history of no tokens; any odd word would do. */
#define CHAIN_START UINT64_C(0x6b76745f70616765)

uint64_t kvt_content(enum kvt_content_kind kind, uint64_t id)
{
    return kvt_chain64((uint64_t)kind, id);
}

void kvt_page_keys_free(struct kvt_page_keys *pages)
{
    free(pages->keys);
    *pages = (struct kvt_page_keys){0};
}

kvt_status kvt_page_keys_begin(struct kvt_page_keys *pages, uint64_t tokens, struct kvt_error *err)
{
    uint64_t wanted = tokens / KVT_PAGE_ROWS;
    if (wanted > UINT32_MAX / 2)
        return kvt_fail(err, KVT_ERR_INVALID, "page keys", "a history of %llu tokens is too long",
                        (unsigned long long)tokens);
    if (wanted > pages->capacity) {
        uint32_t capacity = (uint32_t)wanted + (uint32_t)wanted / 2;
        uint64_t *keys = realloc(pages->keys, capacity * sizeof *keys);
        if (keys == NULL)
            return kvt_fail_nomem(err, "the keys of a request's pages");
        pages->keys = keys;
        pages->capacity = capacity;
    }
    pages->count = 0;
    pages->chain = CHAIN_START;
    pages->page_tokens = 0;
    return KVT_OK;
}

void kvt_page_keys_run(struct kvt_page_keys *pages, uint64_t content, uint64_t tokens)
{
    while (tokens > 0) {
        uint32_t room = KVT_PAGE_ROWS - pages->page_tokens;
        uint32_t taken = tokens < room ? (uint32_t)tokens : room;
        pages->chain = kvt_chain64(pages->chain, content);
        pages->page_tokens += taken;
        tokens -= taken;
        if (pages->page_tokens < KVT_PAGE_ROWS) {
            pages->chain = kvt_chain64(pages->chain, pages->page_tokens);
        } else {
            pages->keys[pages->count++] = pages->chain;
            pages->page_tokens = 0;
        }
    }
}
