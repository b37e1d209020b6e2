/* test_page_keys.c -- what prompts share, by what traces say of their contents. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/page_keys.h"
#include "support/support.h"
#include "support/traces.h"

enum {
    ROWS_MAX = 16,
    KEYS_MAX = 64
};

/* ---- Runs ----------------------------------------------------------------------------------- */

struct run {
    uint64_t content, tokens;
};

/* Keys of a history of up to four runs. */
static struct kvt_page_keys keys_of(const struct run runs[4])
{
    struct kvt_page_keys keys = {0};
    struct kvt_error err = {0};
    uint64_t tokens = 0;
    for (int i = 0; i < 4; i++)
        tokens += runs[i].tokens;
    ck_assert_int_eq(kvt_page_keys_begin(&keys, tokens, &err), KVT_OK);
    for (int i = 0; i < 4; i++)
        kvt_page_keys_run(&keys, runs[i].content, runs[i].tokens);
    ck_assert_uint_eq(keys.count, tokens / KVT_PAGE_ROWS);
    return keys;
}

START_TEST(histories_share_the_pages_before_they_part)
{
    static const struct {
        struct run a[4], b[4];
        uint32_t shared_pages;
    } rows[] = {
        {{{1, 640}}, {{1, 64000}}, 10},
        {{{1, 640}}, {{2, 640}}, 0},
        {{{1, 640}, {2, 640}}, {{1, 640}, {3, 640}}, 10},
        {{{1, 650}, {2, 640}}, {{1, 650}, {3, 640}}, 10},
        {{{1, 650}, {2, 640}}, {{1, 650}, {2, 639}}, 20},
        {{{1, 650}, {2, 640}}, {{1, 651}, {2, 640}}, 10}, /* they part within the page */
        {{{1, 30}, {2, 34}, {3, 64}}, {{1, 34}, {2, 30}, {3, 64}}, 0},
        {{{1, 64}, {2, 64}}, {{2, 64}, {1, 64}}, 0},
        {{{1, 64}, {2, 64}, {3, 64}}, {{1, 64}, {4, 64}, {3, 64}}, 1}, /* never again alike */
        {{{1, 63}}, {{1, 63}}, 0},
    };
    struct kvt_page_keys a = keys_of(rows[_i].a);
    struct kvt_page_keys b = keys_of(rows[_i].b);
    uint32_t count = 0;
    while (count < a.count && count < b.count && a.keys[count] == b.keys[count])
        count++;
    ck_assert_uint_eq(count, rows[_i].shared_pages);
    for (uint32_t i = count; i < a.count; i++) {
        for (uint32_t j = 0; j < b.count; j++)
            ck_assert_uint_ne(a.keys[i], b.keys[j]);
    }
    kvt_page_keys_free(&a);
    kvt_page_keys_free(&b);
}
END_TEST

START_TEST(contents_of_different_kinds_differ)
{
    ck_assert_uint_ne(kvt_content(KVT_CONTENT_SESSION, 7), kvt_content(KVT_CONTENT_GROUP, 7));
    ck_assert_uint_ne(kvt_content(KVT_CONTENT_CHAT, 7), kvt_content(KVT_CONTENT_BLOCK, 7));
    ck_assert_uint_ne(kvt_content(KVT_CONTENT_CHAT, 7), kvt_content(KVT_CONTENT_CHAT, 8));
}
END_TEST

/* ---- Traces ---------------------------------------------------------------------------------- */

static struct {
    uint64_t keys[KEYS_MAX];
    uint32_t count;
} requests[ROWS_MAX];

static size_t read_keys(const char *text, bool page_keys)
{
    support_write(traces_path(), text, strlen(text));
    struct kvt_trace_options options = traces_options(traces_path());
    options.page_keys = page_keys;
    struct kvt_trace *trace = traces_opened(&options);
    size_t count = 0;
    struct kvt_request_spec spec;
    for (; traces_next(trace, &spec); count++) {
        ck_assert_uint_le(spec.page_key_count, KEYS_MAX);
        requests[count].count = spec.page_key_count;
        if (spec.page_key_count > 0)
            memcpy(requests[count].keys, spec.page_keys,
                   spec.page_key_count * sizeof spec.page_keys[0]);
    }
    kvt_trace_close(trace);
    return count;
}

static uint32_t shared_pages(size_t a, size_t b)
{
    uint32_t count = 0;
    while (count < requests[a].count && count < requests[b].count &&
           requests[a].keys[count] == requests[b].keys[count])
        count++;
    return count;
}

#define MOONCAKE(ms, in, ids)                                                                      \
    "{\"timestamp\": " #ms ", \"input_length\": " #in ", \"output_length\": 200, "                 \
    "\"hash_ids\": [" ids "]}\n"

START_TEST(blocks_of_512_tokens_are_eight_pages_each)
{
    ck_assert_uint_eq(read_keys(MOONCAKE(0, 1300, "7, 8, 9") MOONCAKE(1, 1024, "7, 8")
                                    MOONCAKE(2, 1500, "7, 8, 9") MOONCAKE(3, 1100, "7, 5, 9"),
                                true),
                      4);
    ck_assert_uint_eq(requests[0].count, 20); /* of the prompt: nobody knows the answer */
    ck_assert_uint_eq(requests[1].count, 16);
    ck_assert_uint_eq(shared_pages(0, 1), 16);
    ck_assert_uint_eq(shared_pages(0, 2), 20);
    ck_assert_uint_eq(shared_pages(0, 3), 8);
}
END_TEST

START_TEST(a_file_out_of_order_keeps_each_request_s_pages)
{
    ck_assert_uint_eq(read_keys(MOONCAKE(5, 1024, "7, 8") MOONCAKE(0, 512, "1")
                                    MOONCAKE(2, 1030, "7, 8, 9"),
                                true),
                      3);
    ck_assert_uint_eq(requests[0].count, 8);
    ck_assert_uint_eq(requests[1].count, 16);
    ck_assert_uint_eq(shared_pages(1, 2), 16);
    ck_assert_uint_eq(shared_pages(0, 2), 0);

    ck_assert_uint_eq(read_keys("arrival_s,input_tokens,output_tokens,session_id,prefix_group,"
                                "prefix_tokens\n5,640,64,a,docs,128\n1,640,64,b,docs,128\n",
                                true),
                      2);
    ck_assert_uint_eq(requests[0].count, 11);
    ck_assert_uint_eq(shared_pages(0, 1), 2);
}
END_TEST

START_TEST(small_blocks_make_a_page_together)
{
    static const char head[] = "{\"chat_id\": ";
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "%s1, \"parent_chat_id\": -1, \"timestamp\": 0, \"input_length\": 140, "
                   "\"output_length\": 9, \"hash_ids\": [1, 2, 3, 4, 5, 6, 7, 8, 9]}\n"
                   "%s2, \"parent_chat_id\": 1, \"timestamp\": 1, \"input_length\": 140, "
                   "\"output_length\": 9, \"hash_ids\": [1, 2, 3, 4, 5, 6, 70, 8, 9]}\n",
                   head, head);
    ck_assert_uint_eq(read_keys(text, true), 2);
    ck_assert_uint_eq(requests[0].count, 2);
    ck_assert_uint_eq(shared_pages(0, 1), 1); /* hash ids know more than parents do */
}
END_TEST

#define CHAT(id, parent, at, in, out)                                                              \
    "{\"chat_id\": " #id ", \"parent_chat_id\": " #parent ", \"timestamp\": " #at                  \
    ", \"input_length\": " #in ", \"output_length\": " #out "}\n"

START_TEST(a_chat_begins_with_all_of_its_parent)
{
    /* 1 <- 2 <- 3, 1 <- 4; 5 repeats less than its parent repeats; 6 is cut short; 7 is new. */
    ck_assert_uint_eq(read_keys(CHAT(1, -1, 0, 640, 64) CHAT(2, 1, 1, 1280, 64)
                                    CHAT(3, 2, 2, 2000, 10) CHAT(4, 1, 3, 1280, 64)
                                        CHAT(5, 3, 4, 700, 600) CHAT(6, 5, 5, 1600, 64)
                                            CHAT(7, -1, 6, 640, 64),
                                true),
                      7);
    ck_assert_uint_eq(shared_pages(0, 1), 11);
    ck_assert_uint_eq(shared_pages(0, 2), 11);
    ck_assert_uint_eq(shared_pages(1, 2), 21);
    ck_assert_uint_eq(shared_pages(1, 3), 11);
    ck_assert_uint_eq(shared_pages(2, 4), 10); /* 700 tokens: ten pages and a part */
    ck_assert_uint_eq(shared_pages(4, 5), 20);
    ck_assert_uint_eq(shared_pages(2, 5), 10);
    ck_assert_uint_eq(shared_pages(0, 6), 0);
    ck_assert_uint_eq(requests[5].count, 26);
}
END_TEST

START_TEST(groups_share_their_prefix_and_sessions_the_rest)
{
    ck_assert_uint_eq(
        read_keys(
            "arrival_s,input_tokens,output_tokens,session_id,turn,prefix_group,prefix_tokens\n"
            "0,640,64,a,0,docs,200\n"
            "1,640,64,b,0,docs,200\n"
            "2,1280,64,a,1,docs,200\n"
            "3,640,64,,,docs,200\n"
            "4,640,64,,,code,200\n"
            "5,640,64,,,,\n"
            "6,100,64,,,docs,100\n"
            "7,640,64,,,,200\n",
            true),
        8);
    ck_assert_uint_eq(shared_pages(0, 1), 3);
    ck_assert_uint_eq(shared_pages(0, 2), 11);
    ck_assert_uint_eq(requests[3].count, 3); /* beyond the prefix nothing is known */
    ck_assert_uint_eq(shared_pages(0, 3), 3);
    ck_assert_uint_eq(shared_pages(0, 4), 0);
    ck_assert_uint_eq(requests[5].count, 0);
    ck_assert_uint_eq(requests[6].count, 1); /* a whole prompt of it */
    ck_assert_uint_eq(shared_pages(0, 6), 1);
    ck_assert_uint_eq(requests[7].count, 3); /* the group without a name */
    ck_assert_uint_eq(shared_pages(4, 7), 0);
}
END_TEST

START_TEST(keys_come_only_where_they_are_wanted)
{
    ck_assert_uint_eq(read_keys(MOONCAKE(0, 1300, "7, 8, 9"), false), 1);
    ck_assert_uint_eq(requests[0].count, 0);
}
END_TEST

START_TEST(a_long_chain_of_short_chats_is_walked_once)
{
    static char text[1 << 22];
    size_t used = 0;
    for (int i = 0; i < 30000; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "{\"chat_id\": %d, \"parent_chat_id\": %d, \"timestamp\": %d, "
                                 "\"input_length\": 70, \"output_length\": 1}\n",
                                 i, i - 1, i);
    support_write(traces_path(), text, used);
    struct kvt_trace_options options = traces_options(traces_path());
    options.page_keys = true;
    struct kvt_trace *trace = traces_opened(&options);
    struct kvt_request_spec spec = {0};
    uint64_t first = 0;
    for (bool more = true; more;) {
        ck_assert_int_eq(kvt_trace_next(trace, &spec, &more, NULL), KVT_OK);
        ck_assert_uint_eq(spec.page_key_count, more ? 1 : spec.page_key_count);
        if (more && spec.turn == 0)
            first = spec.page_keys[0];
        if (more)
            ck_assert_uint_eq(spec.page_keys[0], first);
    }
    kvt_trace_close(trace);
}
END_TEST

static Suite *page_keys_suite(void)
{
    Suite *suite = suite_create("page_keys");
    TCase *runs = tcase_create("runs");
    tcase_add_loop_test(runs, histories_share_the_pages_before_they_part, 0, 10);
    tcase_add_test(runs, contents_of_different_kinds_differ);
    suite_add_tcase(suite, runs);

    TCase *traces = tcase_create("traces");
    tcase_add_checked_fixture(traces, traces_folder_make, traces_folder_remove);
    tcase_add_test(traces, blocks_of_512_tokens_are_eight_pages_each);
    tcase_add_test(traces, a_file_out_of_order_keeps_each_request_s_pages);
    tcase_add_test(traces, small_blocks_make_a_page_together);
    tcase_add_test(traces, a_chat_begins_with_all_of_its_parent);
    tcase_add_test(traces, groups_share_their_prefix_and_sessions_the_rest);
    tcase_add_test(traces, keys_come_only_where_they_are_wanted);
    tcase_add_test(traces, a_long_chain_of_short_chats_is_walked_once);
    suite_add_tcase(suite, traces);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(page_keys_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
