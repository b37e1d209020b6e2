/* test_trace_readers.c -- what benchmarks and agents' traces say beyond times and lengths: who
 * follows whom, and what prompts share. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/workload.h"
#include "support/support.h"
#include "support/traces.h"

#define REQUESTS_MAX 16
#define PAGES_MAX 64

/* All requests of a file, with their keys. */
struct read {
    struct kvt_request_spec requests[REQUESTS_MAX];
    uint64_t keys[REQUESTS_MAX][PAGES_MAX];
    size_t count;
    struct kvt_trace_account account;
    char unused[64]; /* the account's own goes with the trace */
};

static void read_all(const char *name, bool ordered_keys_only, struct read *out)
{
    char path[256];
    (void)snprintf(path, sizeof path, TRACES_DATA "%s", name);
    struct kvt_trace_options options = traces_options(path);
    options.page_keys = true;
    options.ordered_keys_only = ordered_keys_only;
    struct kvt_trace *trace = traces_opened(&options);
    struct kvt_request_spec spec;
    out->count = 0;
    while (traces_next(trace, &spec)) {
        ck_assert_uint_lt(out->count, REQUESTS_MAX);
        ck_assert_uint_le(spec.page_key_count, PAGES_MAX);
        out->requests[out->count] = spec;
        for (uint32_t k = 0; k < spec.page_key_count; k++)
            out->keys[out->count][k] = spec.page_keys[k];
        out->count++;
    }
    out->account = *kvt_trace_account_of(trace);
    (void)snprintf(out->unused, sizeof out->unused, "%s",
                   out->account.unused != NULL ? out->account.unused : "");
    kvt_trace_close(trace);
}

static void assert_request(const struct read *read, size_t i, kvt_ns arrival_ns, uint32_t input,
                           uint32_t output)
{
    ck_assert_uint_lt(i, read->count);
    ck_assert_int_eq(read->requests[i].arrival_ns, arrival_ns);
    ck_assert_uint_eq(read->requests[i].input_tokens, input);
    ck_assert_uint_eq(read->requests[i].output_tokens, output);
}

/* Pages from the first on that both have. */
static uint32_t shared(const struct read *read, size_t a, size_t b)
{
    uint32_t pages = 0;
    while (pages < read->requests[a].page_key_count && pages < read->requests[b].page_key_count &&
           read->keys[a][pages] == read->keys[b][pages])
        pages++;
    return pages;
}

#define S KVT_NS_PER_S

/* ---- RAGPulse ------------------------------------------------------------------------ */

/* 512 + 512 of the system prompt, passages of 100 and 60, history 11, users 9 and 20. */
START_TEST(parts_of_prompts_are_shared_as_far_as_they_are_the_same_and_weeks_go_on)
{
    static struct read read;
    read_all("ragpulse/0_trace.jsonl", false, &read);
    ck_assert_str_eq(read.account.format, "ragpulse");
    ck_assert_uint_eq(read.account.rows_read, 4);
    ck_assert_uint_eq(read.account.dropped[KVT_DROP_ZERO_OUTPUT], 1);
    ck_assert_uint_eq(read.account.out_of_order_rows, 0);
    ck_assert_uint_eq(read.account.hash_id_requests, 3);
    ck_assert_str_eq(read.unused, "");
    assert_request(&read, 0, 0, 1212, 192);
    assert_request(&read, 1, 110 * S, 1221, 86);
    assert_request(&read, 2, 110 * S, 1212, 7);
    ck_assert_uint_eq(read.requests[0].page_key_count, 1204 / 64);
    ck_assert_uint_eq(read.requests[1].page_key_count, 1215 / 64);
    ck_assert_uint_eq(shared(&read, 0, 1), 16);
    ck_assert_uint_eq(shared(&read, 0, 2), 18);
    ck_assert_uint_eq(read.requests[0].session, read.requests[1].session);
    ck_assert_uint_ne(read.requests[0].session, read.requests[2].session);
}
END_TEST

/* Its conversation does not stand in for it: other passages come in between. */
START_TEST(without_the_lengths_of_parts_nothing_is_known_of_prompts)
{
    static struct read read;
    read_all("ragpulse.jsonl", false, &read);
    ck_assert_str_eq(read.account.format, "ragpulse");
    ck_assert_uint_eq(read.count, 2);
    ck_assert_uint_eq(read.account.hash_id_requests, 0);
    ck_assert_uint_eq(read.requests[0].page_key_count, 0);
    ck_assert_uint_eq(read.requests[1].page_key_count, 0);
}
END_TEST

#define RAG(stamp, input, ids)                                                                     \
    "{\"timestamp\": \"" stamp "\", \"input_length\": " input ", \"output_length\": 1, "           \
    "\"hash_ids\": " ids "}\n"

START_TEST(parts_that_do_not_add_up_are_refused_with_their_place)
{
    static const struct {
        const char *trace, *passages, *says;
    } cases[] = {
        {RAG("1", "9", "{\"user_input\": [4], \"passages_ids\": [7]}"), "",
         "KVT_ERR_PARSE t:1#/hash_ids: part 7 has no length in the files beside the trace"},
        {RAG("1", "8", "{\"user_input\": [4]}"), "",
         "KVT_ERR_INVALID t:1#/hash_ids: hash_ids stand for 9 tokens, and the prompt has 8"},
        {RAG("1", "9", "{\"user_input\": 4}"), "", "t:1#/hash_ids: hash_ids is an object of lists"},
        {RAG("1", "9", "{\"user_input\": [4.5]}"), "", "t:1#/hash_ids: hash_ids is an object"},
        {RAG("1", "9", "{\"user_input\": [4]}") RAG("2", "9", "[4]"), "",
         "t:2#/hash_ids: hash_ids is an object of lists"},
        {RAG("1", "9", "{\"user_input\": [4]}"), "{\"passage_id\": 4, \"token_length\": 1}\n",
         "part 4 has a length already"},
        {RAG("1", "9", "{\"user_input\": [4]}"), "{\"passage_id\": 5}\n",
         "2_passages.jsonl:1#/token_length: a line is expected to hold a part's id"},
        {RAG("1", "9", "{\"user_input\": [4]}"), "{\"passage_id\": 5, \"token_length\": -1}\n",
         "2_passages.jsonl:1#/token_length: -1 is not a whole number"},
    };
    static const char *const others[] = {"1_sys_prompt.jsonl", "3_history.jsonl",
                                         "5_web_search.jsonl"};
    char file[SUPPORT_PATH_BYTES];
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        support_write(support_path(traces_folder(), others[i], file), "", 0);
    support_write(support_path(traces_folder(), "4_user_input.jsonl", file),
                  "{\"token_length\": 9, \"user_input_id\": 4}\n", 40);
    traces_assert_holds(traces_refusal_of(cases[0].trace, strlen(cases[0].trace)),
                        "KVT_ERR_NOT_FOUND 2_passages.jsonl");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        support_write(support_path(traces_folder(), "2_passages.jsonl", file), cases[i].passages,
                      strlen(cases[i].passages));
        traces_assert_holds(traces_refusal_of(cases[i].trace, strlen(cases[i].trace)),
                            cases[i].says);
    }
}
END_TEST

START_TEST(times_that_begin_anew_without_end_are_refused)
{
    static char text[1 << 21];
    size_t used = 0;
    for (int i = 0; i < 7000; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s",
                                 i % 2 == 0 ? RAG("604799", "9", "{\"user_input\": []}")
                                            : RAG("0", "9", "{\"user_input\": []}"));
    support_write(traces_path(), text, used);
    struct kvt_trace_options options = traces_options(traces_path());
    kvt_trace_close(traces_opened(&options)); /* 3,500 weeks: 2037 */
    for (int i = 0; i < 7000; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s",
                                 i % 2 == 0 ? RAG("604799", "9", "{\"user_input\": []}")
                                            : RAG("0", "9", "{\"user_input\": []}"));
    support_write(traces_path(), text, used);
    traces_assert_holds(traces_refusal_with(&options), "times have begun anew so often");
}
END_TEST

/* ---- Mooncake's superset ------------------------------------------------------------- */

START_TEST(a_turn_with_a_delay_follows_and_needs_no_time_of_its_own)
{
    static struct read read;
    read_all("mooncake-delays.jsonl", false, &read);
    ck_assert_str_eq(read.account.format, "mooncake");
    ck_assert_uint_eq(read.count, 3);
    assert_request(&read, 0, 0, 600, 10);
    assert_request(&read, 1, 0, 1100, 12);
    assert_request(&read, 2, 500500000, 100, 4);
    ck_assert(!read.requests[0].follows && read.requests[1].follows && !read.requests[2].follows);
    ck_assert_int_eq(read.requests[1].think_ns, 2500000000);
    ck_assert_uint_eq(read.requests[0].session, read.requests[1].session);
    ck_assert_uint_eq(shared(&read, 0, 1), 9); /* of block 2 the first has a page and a part */
    ck_assert_uint_eq(read.requests[2].page_key_count, 0); /* an empty list says nothing */
    ck_assert_uint_eq(read.account.hash_id_requests, 2);
}
END_TEST

/* ---- Weka ------------------------------------------------------------------------------ */

START_TEST(agents_turns_follow_by_what_is_left_of_their_gaps_and_ids_are_the_conversation_s)
{
    static struct read read;
    read_all("weka.jsonl", true, &read);
    ck_assert_str_eq(read.account.format, "weka");
    ck_assert_uint_eq(read.account.rows_read, 5);
    ck_assert_uint_eq(read.account.dropped[KVT_DROP_ZERO_OUTPUT], 1);
    ck_assert_uint_eq(read.account.out_of_order_rows, 1);
    ck_assert(!read.account.hash_ids_left_out);
    ck_assert_uint_eq(read.count, 4);
    assert_request(&read, 0, 0, 640, 20);
    assert_request(&read, 1, 0, 130, 7);
    assert_request(&read, 2, 5750000000, 128, 5);
    assert_request(&read, 3, 16500000000, 700, 8);
    ck_assert(!read.requests[2].follows && read.requests[3].follows);
    ck_assert_int_eq(read.requests[3].think_ns, 12 * S);
    ck_assert_uint_eq(read.requests[0].session, read.requests[3].session);
    ck_assert_uint_ne(read.requests[0].session, read.requests[2].session);
    ck_assert_uint_eq(read.requests[3].turn, 1);
    ck_assert_uint_eq(shared(&read, 0, 1), 0);
    ck_assert_uint_eq(shared(&read, 0, 2), 1);
    ck_assert_uint_eq(shared(&read, 0, 3), 10);
    ck_assert_uint_eq(read.requests[1].page_key_count, 2);
}
END_TEST

START_TEST(ids_of_global_scope_and_other_blocks_are_taken_and_one_document_too)
{
    static const char text[] =
        "{\"id\": 1, \"hash_id_scope\": \"global\",\n \"block_size\": 128, \"requests\": [\n"
        "{\"t\": 1, \"in\": 200, \"out\": 1, \"hash_ids\": [1, 2]},\n"
        "{\"t\": 2, \"in\": 100, \"out\": 1, \"hash_ids\": []}, {\"t\": 3, \"type\": \"subagent\", "
        "\"requests\": [{\"t\": 4, \"in\": 9, \"out\": 1}]}]}\n";
    struct kvt_trace_account account;
    support_write(traces_path(), text, sizeof text - 1);
    struct kvt_trace_options options = traces_options(traces_path());
    options.page_keys = true;
    struct kvt_trace *trace = traces_opened(&options);
    struct kvt_request_spec spec;
    ck_assert(traces_next(trace, &spec));
    ck_assert_uint_eq(spec.page_key_count, 3);
    kvt_trace_close(trace);
    traces_assert_holds(traces_requests_of(traces_path(), &account),
                        "0:200/1 s1.0; 1000000000:100/1 s1.1; 3000000000:9/1 s");
}
END_TEST

/* ---- Benchmarks ------------------------------------------------------------------------- */

START_TEST(aiperf_s_records_are_played_back_as_they_began)
{
    static struct read read;
    read_all("aiperf.jsonl", false, &read);
    ck_assert_str_eq(read.account.format, "aiperf");
    ck_assert_uint_eq(read.account.rows_read, 4);
    ck_assert_uint_eq(read.account.dropped[KVT_DROP_FAILED], 1);
    assert_request(&read, 0, 0, 550, 9);
    assert_request(&read, 1, 1250000000 - 128, 609, 1); /* the double nearest to its time */
    assert_request(&read, 2, 2 * S, 12, 3);
    ck_assert_uint_eq(read.requests[0].session, read.requests[1].session);
    ck_assert_uint_eq(read.requests[1].turn, 1);
    ck_assert_uint_eq(read.requests[2].session, UINT64_MAX);
    ck_assert_uint_eq(shared(&read, 0, 1), 559 / 64);
}
END_TEST

START_TEST(guidellm_s_runs_follow_each_other_and_what_did_not_succeed_is_counted)
{
    static struct read read;
    read_all("guidellm.json", false, &read);
    ck_assert_str_eq(read.account.format, "guidellm");
    ck_assert_uint_eq(read.account.rows_read, 5);
    ck_assert_uint_eq(read.account.dropped[KVT_DROP_FAILED], 2);
    ck_assert_double_eq_tol(read.account.rebased_s, 1754563200.25, 1e-6);
    assert_request(&read, 0, 0, 100, 20);
    assert_request(&read, 1, 1250000000, 128, 64);
    assert_request(&read, 2, 10 * S, 7, 2);
    ck_assert_uint_eq(read.requests[0].session, read.requests[1].session);
    ck_assert_uint_eq(read.requests[1].turn, 1);
}
END_TEST

START_TEST(sglang_s_burst_arrives_at_once)
{
    static struct read read;
    read_all("sglang-burst.jsonl", false, &read);
    ck_assert_str_eq(read.account.format, "sglang");
    ck_assert_uint_eq(read.account.rows_read, 3);
    ck_assert_uint_eq(read.account.dropped[KVT_DROP_FAILED], 1);
    assert_request(&read, 0, 0, 7, 2);
    assert_request(&read, 1, 0, 8, 3);
}
END_TEST

/* ---- BLIS ------------------------------------------------------------------------------- */

START_TEST(blis_s_prompts_are_their_group_s_prefix_and_their_own_tokens)
{
    static struct read read;
    read_all("blis.csv", false, &read);
    ck_assert_str_eq(read.account.format, "blis");
    ck_assert_uint_eq(read.account.rows_read, 4);
    ck_assert_uint_eq(read.account.dropped[KVT_DROP_FAILED], 1);
    ck_assert_str_eq(read.unused, "tenant");
    assert_request(&read, 0, 0, 140, 5);
    ck_assert_uint_eq(read.requests[0].prefix_tokens, 100);
    ck_assert_str_eq(read.requests[0].slo_class, "chat");
    assert_request(&read, 1, 500000000, 47, 6);
    assert_request(&read, 2, 750000000, 40, 7);
    ck_assert_uint_eq(read.requests[1].prefix_tokens, 0);
}
END_TEST

START_TEST(blis_s_growing_conversations_hold_all_before_them)
{
    static struct read read;
    read_all("blis-growing.csv", false, &read);
    ck_assert_uint_eq(read.count, 4);
    assert_request(&read, 0, 0, 100, 10);
    assert_request(&read, 1, 500000, 50, 1);
    assert_request(&read, 2, 4 * S, 130, 5);
    assert_request(&read, 3, 9 * S, 135, 3);
    ck_assert(read.requests[2].follows && !read.requests[0].follows);
    ck_assert_int_eq(read.requests[2].think_ns, 2 * S);
    ck_assert_uint_eq(shared(&read, 0, 2), 1);
    ck_assert_uint_eq(shared(&read, 2, 3), 2);
}
END_TEST

/* ---- Refused ------------------------------------------------------------------------------ */

static const struct refusal {
    const char *text, *says;
} refused[] = {
    {"{\"request_throughput\": 1, \"request_rate\": 4.0, \"input_lens\": [1], \"output_lens\": "
     "[1]}",
     "KVT_ERR_PARSE t:1: no array \"start_times\", and request_rate is not infinite"},
    {"{\"request_throughput\": 1, \"request_rate\": \"trace\", \"input_lens\": [1], "
     "\"output_lens\": "
     "[1]}",
     "and request_rate is not infinite: when its requests came was not kept"},
    {"{\"request_throughput\": 1, \"request_rate\": Infinity, \"input_lens\": [1], "
     "\"output_lens\": "
     "[1]}\n{\"request_throughput\": 1, \"request_rate\": Infinity, \"input_lens\": [1], "
     "\"output_lens\": [1]}",
     "KVT_ERR_PARSE t:2: a second run, and neither says when it began"},
    {"{\"request_throughput\": 1, \"request_rate\": Infinity, \"input_lens\": [Infinity], "
     "\"output_lens\": [1]}",
     "t:1#/input_lens/0: "},
    {"{\"request_throughput\": -Infinity}", "t:1"},
    /* Cut off, on one line and over several. */
    {"{\"request_throughput\": 1, \"request_rate\": Infinity, \"input_lens\": [1, 2",
     "KVT_ERR_PARSE t:1:72: the text ends here; expected"},
    {"{\"request_rate\": Infinity,\n\"request_throughput\": 1, \"input_lens\": [1],\n\"back",
     "KVT_ERR_PARSE t:3:1: a string that is never closed: the text ends in it"},
    {"{\"arrival_s\": Infinity, \"in\": 1, \"out\": 1}", "t:1"},
    {"Run Info,Timings,Request Counts\nRun ID,Start Time,Successful\n,,\nr,x,1\n",
     "KVT_ERR_UNSUPPORTED t: a summary, without a single request; give GuideLLM's "
     "benchmarks.json"},
    {"Metric,avg,min,max,p1,p99,std\nRequest Latency (ms),1,1,1,1,1,1\n\nMetric,Value\nx,1\n",
     "a summary, without a single request; give AIPerf's profile_export.jsonl"},
    {"{\"request_latency\": {\"unit\": \"ms\", \"avg\": 1}, \"input_config\": {}}",
     "a summary, without a single request; give profile_export.jsonl of the same run"},
    {"{\"benchmarks\": []}", "the file has no rows (format guidellm)"},
    {"{\"benchmarks\": 3}", "t:1#/benchmarks/0/requests: \"benchmarks\" is expected to be a list"},
    {"{\"benchmarks\": [{\"requests\": []}]}",
     "t:1#/benchmarks/0/requests: an object of the lists \"successful\""},
    {"{\"benchmarks\": [{\"requests\": {\"successful\": [], \"errored\": 1}}]}",
     "t:1#/benchmarks/0/requests: an object of the lists"},
    {"{\"benchmarks\": [{\"metrics\": {\"request_totals\": {\"successful\": 5}}, \"requests\": "
     "{\"successful\": [{\"start_time\": 1, \"prompt_tokens\": 1, \"output_tokens\": 1}]}}]}",
     "t:1#/benchmarks/0/requests: 1 of 5 successful requests are listed, a sample; all are"},
    {"{\"benchmarks\": [{\"requests\": {\"successful\": [{\"start_time\": 1, \"prompt_tokens\": "
     "null, "
     "\"output_tokens\": 1}]}}]}",
     "t:1#/benchmarks/0/requests/successful/0/prompt_tokens: a number is expected here, not null"},
    {"{\"benchmarks\": [{\"requests\": {\"successful\": [{\"prompt_tokens\": 1}]}}]}",
     "benchmarks/0/requests/successful/0/request_start_time: no \"request_start_time\" in this"},
    {"{\"metadata\": {\"x_request_id\": 1}, \"metrics\": {}}",
     "t:1#/metadata/request_start_ns: no \"request_start_ns\""},
    {"{\"metadata\": {\"x_request_id\": 1, \"request_start_ns\": 5}, \"metrics\": {}}",
     "t:1#/metrics/input_sequence_length/value: no \"value\" in this object"},
    {"{\"metadata\": {\"x_request_id\": 1, \"request_start_ns\": -5}, \"metrics\": {}}",
     "t:1#/metadata/request_start_ns: "},
    {"{\"id\": 1, \"requests\": {}}", "t:1#/requests: a list of the conversation's requests"},
    {"{\"id\": null, \"requests\": []}", "t:1#/id: a number is expected here, not null"},
    {"{\"id\": 1, \"requests\": []}", "the file has no rows (format weka)"},
    {"{\"id\": 1, \"hash_id_scope\": \"galactic\", \"requests\": []}",
     "t:1#/hash_id_scope: \"local\" or \"global\" is expected"},
    {"{\"id\": 1, \"block_size\": 0, \"requests\": []}", "t:1#/block_size"},
    {"{\"id\": 1, \"requests\": [{\"in\": 1, \"out\": 1}]}",
     "t:1#/requests/0/t: no \"t\" in this object"},
    {"{\"id\": 1, \"requests\": [{\"t\": 1, \"in\": 1, \"out\": 1, \"api_time\": -1}]}",
     "t:1#/requests/0/api_time: "},
    {"{\"id\": 1, \"requests\": [{\"t\": 1, \"in\": 1, \"out\": 1}, {\"t\": 1, \"in\": 1.5}]}",
     "t:1#/requests/1/in: 1.5 is not a whole number"},
    {"{\"id\": 1, \"requests\": [{\"t\": 1, \"in\": 640, \"out\": 1, \"hash_ids\": [1]}]}",
     "t:1#/requests/0/hash_ids: 1 hash_ids for 640 input tokens, where blocks of 64"},
    {"{\"id\": 1, \"requests\": [{\"t\": 1, \"requests\": [{\"t\": 1, \"in\": 1}]}]}",
     "t:1#/requests/0/requests/0/out: no \"out\""},
    {"{\"id\": 1, \"requests\": [{\"t\": 1, \"requests\": 3}]}",
     "t:1#/requests/0: a subagent has a list of requests"},
    {"{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 5}\n"
     "{\"input_length\": 5, \"output_length\": 5}\n",
     "KVT_ERR_PARSE t:2: no arrival time in this object"},
    {"{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 5, \"delay\": -1}\n",
     "t:1#/delay: "},
};

START_TEST(what_cannot_be_played_back_is_refused_with_its_place)
{
    traces_assert_holds(traces_refusal_of(refused[_i].text, strlen(refused[_i].text)),
                        refused[_i].says);
}
END_TEST

START_TEST(a_header_of_blis_that_is_not_understood_is_refused)
{
    static const char rows[] = "session_id,round_index,prefix_group,input_tokens,output_tokens,"
                               "arrival_time_us,status\ns,0,,2147483647,1,0,ok\ns,1,,1,1,5,ok\n";
    static const char strange[] = "trace_version: 3\nsession_context_growth: sideways\n";
    static const char growing[] = "session_context_growth: accumulate\n";
    char file[SUPPORT_PATH_BYTES];
    support_write(support_path(traces_folder(), "b.yaml", file), strange, sizeof strange - 1);
    support_write(support_path(traces_folder(), "b.csv", file), rows, sizeof rows - 1);
    struct kvt_trace_options options = traces_options(file);
    traces_assert_holds(traces_refusal_with(&options),
                        "b.yaml:2: session_context_growth \"sideways\"; accumulate or independent");
    char header[SUPPORT_PATH_BYTES];
    support_write(support_path(traces_folder(), "b.yaml", header), growing, sizeof growing - 1);
    traces_assert_holds(traces_refusal_with(&options),
                        "KVT_ERR_INVALID b.csv:3: a prompt of 2147483649 tokens with all before");
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    static const char *const files[] = {TRACES_DATA "ragpulse/0_trace.jsonl",
                                        TRACES_DATA "aiperf.jsonl",
                                        TRACES_DATA "guidellm.json",
                                        TRACES_DATA "blis-growing.csv",
                                        TRACES_DATA "weka.jsonl",
                                        TRACES_DATA "sglang-burst.jsonl"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct kvt_trace_options options = traces_options(files[i]);
        options.page_keys = true;
        for (uint64_t nth = 0;; nth++) {
            struct kvt_trace *trace = NULL;
            struct kvt_error err = {0};
            support_fail_allocation(nth);
            kvt_status status = kvt_trace_open(&options, &trace, &err);
            bool has_failed = support_allocation_failed();
            if (status == KVT_OK)
                kvt_trace_close(trace);
            else
                ck_assert_ptr_null(trace);
            if (!has_failed)
                break;
        }
    }
}
END_TEST

static Suite *readers_suite(void)
{
    Suite *suite = suite_create("trace_readers");
    TCase *readers = tcase_create("readers");
    tcase_add_checked_fixture(readers, traces_folder_make, traces_folder_remove);
    tcase_add_test(readers,
                   parts_of_prompts_are_shared_as_far_as_they_are_the_same_and_weeks_go_on);
    tcase_add_test(readers, without_the_lengths_of_parts_nothing_is_known_of_prompts);
    tcase_add_test(readers, parts_that_do_not_add_up_are_refused_with_their_place);
    tcase_add_test(readers, times_that_begin_anew_without_end_are_refused);
    tcase_add_test(readers, a_turn_with_a_delay_follows_and_needs_no_time_of_its_own);
    tcase_add_test(
        readers, agents_turns_follow_by_what_is_left_of_their_gaps_and_ids_are_the_conversation_s);
    tcase_add_test(readers, ids_of_global_scope_and_other_blocks_are_taken_and_one_document_too);
    tcase_add_test(readers, aiperf_s_records_are_played_back_as_they_began);
    tcase_add_test(readers, guidellm_s_runs_follow_each_other_and_what_did_not_succeed_is_counted);
    tcase_add_test(readers, sglang_s_burst_arrives_at_once);
    tcase_add_test(readers, blis_s_prompts_are_their_group_s_prefix_and_their_own_tokens);
    tcase_add_test(readers, blis_s_growing_conversations_hold_all_before_them);
    tcase_add_loop_test(readers, what_cannot_be_played_back_is_refused_with_its_place, 0,
                        (int)(sizeof refused / sizeof refused[0]));
    tcase_add_test(readers, a_header_of_blis_that_is_not_understood_is_refused);
    tcase_add_test(readers, every_allocation_may_fail);
    suite_add_tcase(suite, readers);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(readers_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
