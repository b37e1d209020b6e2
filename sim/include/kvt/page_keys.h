/* kvt/page_keys.h -- keys of pages out of what a history consists of.
 *
 *     run(content, tokens):  the history goes on with `tokens` tokens of one content
 *     key of a page:         chain of the page before, and of the contents of its runs, each
 *                            that ends inside the page followed by where
 *
 * A content is a number for a stream of tokens that two histories share where both begin it at the
 * same token: a conversation, a group's common prompt, a block of a trace's hash_ids. Runs of
 * one content that follow each other are given as one. */
#ifndef KVT_PAGE_KEYS_H
#define KVT_PAGE_KEYS_H

#include "kvt/error.h"

KVT_BEGIN_DECLS

/* Kinds of contents, so that conversation 7 and block 7 are not the same. Append only: keys go
 * into the decision hash through what is found by them. */
enum kvt_content_kind {
    KVT_CONTENT_SESSION = 1, /* of a conversation */
    KVT_CONTENT_GROUP = 2,   /* a prompt that many begin with */
    KVT_CONTENT_CHAT = 3,    /* one request of a conversation, by its own id */
    KVT_CONTENT_BLOCK = 4    /* one block by its hash id */
};
uint64_t kvt_content(enum kvt_content_kind kind, uint64_t id);

struct kvt_page_keys {
    uint64_t *keys; /* [count] whole pages so far */
    uint32_t count, capacity;
    uint64_t chain;       /* of the last page, and of the runs in the one under way */
    uint32_t page_tokens; /* in the page under way */
};

void kvt_page_keys_free(struct kvt_page_keys *pages);
/* An empty history, keeping the memory; room for one of `tokens` tokens. */
KVT_CHECKED kvt_status kvt_page_keys_begin(struct kvt_page_keys *pages, uint64_t tokens,
                                           struct kvt_error *err);
/* Within the tokens that kvt_page_keys_begin() made room for. */
void kvt_page_keys_run(struct kvt_page_keys *pages, uint64_t content, uint64_t tokens);

KVT_END_DECLS
#endif
