/* test_trace_rules.c -- trace files of any format: the untidy, the malformed and the large. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "kvt/workload.h"
#include "support/support.h"
#include "support/traces.h"

#define HEADER "arrival_s,input_tokens,output_tokens\n"

/* ---- Files that are read though they are untidy --------------------------------------- */

#define BYTES(literal) (literal), sizeof(literal) - 1

static const struct tidy {
    const char *bytes;
    size_t byte_count;
    const char *requests;
} untidy[] = {
    {BYTES("\xEF\xBB\xBF" HEADER "1,5,6\n"), "0:5/6"},
    {BYTES("arrival_s,input_tokens,output_tokens\r\n1,5,6\r\n"), "0:5/6"},
    {BYTES(HEADER "1,5,6"), "0:5/6"},
    {BYTES(HEADER "1,5,6\n\n\n"), "0:5/6"},
    {BYTES("\n" HEADER "\n1,5,6\n"), "0:5/6"},
    {BYTES("Arrival S, INPUT TOKENS ,output_tokens\n 1 , 5 ,6\n"), "0:5/6"},
    {BYTES("note,arrival_s,output_tokens,input_tokens\n\"a, b\nc\",1,6,5\n"), "0:5/6"},
    {BYTES(HEADER "1,\"133\",133.0\n1.5,1e3,6\n"), "0:133/133; 500000000:1000/6"},
    {BYTES("\xEF\xBB\xBF{\"arrival_s\": 1, \"in\": 5, \"out\": 6}\r\n\r\n"), "0:5/6"},
    {BYTES("{\"arrival_s\": \"1\", \"in\": \"5\", \"out\": 6.0, \"turn\": null}"), "0:5/6"},
    {BYTES("{\"timestamp\": \"2024-05-10T00:00:00Z\", \"in\": 5, \"out\": 6}\n"
           "{\"timestamp\": \"2024-05-10T00:00:01.25-0130\", \"in\": 5, \"out\": 6}\n"),
     "0:5/6; 5401250000000:5/6"},
    {BYTES("timestamp,in,out\n2024-02-29 23:59:59.999999999,5,6\n2024-03-01 00:00:00,5,6\n"),
     "0:5/6; 1:5/6"},
    {BYTES("arrival_ns,in,out\n1787267980082740301,5,6\n1787267980082740302,5,6\n"),
     "0:5/6; 1:5/6"},
};

START_TEST(byte_order_marks_line_ends_blanks_and_quotes_do_no_harm)
{
    struct kvt_trace_account account;
    ck_assert_str_eq(traces_requests_of_bytes(untidy[_i].bytes, untidy[_i].byte_count, &account),
                     untidy[_i].requests);
}
END_TEST

START_TEST(zero_lengths_are_dropped_and_counted_by_reason)
{
    struct kvt_trace_account account;
    ck_assert_str_eq(
        traces_requests_of_bytes(BYTES(HEADER "1,0,6\n2,5,0\n3,5,6\n4,0,0\n"), &account), "0:5/6");
    ck_assert_uint_eq(account.rows_read, 4);
    ck_assert_uint_eq(account.dropped[KVT_DROP_ZERO_INPUT], 2);
    ck_assert_uint_eq(account.dropped[KVT_DROP_ZERO_OUTPUT], 1);
    ck_assert_double_eq(account.rebased_s, 3);
}
END_TEST

START_TEST(rows_out_of_order_are_sorted_stably_and_counted)
{
    struct kvt_trace_account account;
    ck_assert_str_eq(
        traces_requests_of_bytes(BYTES("arrival_s,input_tokens,output_tokens,session_id,slo_class\n"
                                       "5,1,1,8,a\n3,2,1,,\n5,3,1,,b\n3,4,1,9,a\n7,5,1,,\n"),
                                 &account),
        "0:2/1; 0:4/1 s9.0 a; 2000000000:1/1 s8.0 a; 2000000000:3/1 b; 4000000000:5/1");
    ck_assert_uint_eq(account.out_of_order_rows, 2);
    ck_assert_double_eq(account.rebased_s, 3);
    ck_assert_double_eq(account.span_s, 4);
}
END_TEST

START_TEST(a_window_starts_time_anew_and_a_scale_divides_it)
{
    struct kvt_trace_account account;
    support_write(traces_path(), BYTES(HEADER "10,1,1\n12,2,1\n14.5,3,1\n16,4,1\n"));
    struct kvt_trace_options options = traces_options(traces_path());
    options.window_from_s = 2;
    options.window_to_s = 6;
    options.rate_scale = 2;
    ck_assert_str_eq(traces_requests_with(&options, &account), "0:2/1; 1250000000:3/1");
    ck_assert_uint_eq(account.dropped[KVT_DROP_OUTSIDE_WINDOW], 2);
    ck_assert_double_eq(account.rebased_s, 10);
    ck_assert_double_eq(account.span_s, 1.25);

    support_write(traces_path(), BYTES(HEADER "16,4,1\n12,2,1\n10,1,1\n14.5,3,1\n"));
    ck_assert_str_eq(traces_requests_with(&options, &account), "0:2/1; 1250000000:3/1");
    ck_assert_uint_eq(account.out_of_order_rows, 3);

    options.window_to_s = 0;
    ck_assert_str_eq(traces_requests_with(&options, &account),
                     "0:2/1; 1250000000:3/1; 2000000000:4/1");
}
END_TEST

/* What a text's account says is not simulated, and what convert would lose of it. */
static void check_unused(const char *text, const char *unused, const char *unconverted)
{
    support_write(traces_path(), text, strlen(text));
    const struct kvt_trace_options options = traces_options(traces_path());
    struct kvt_trace *trace = traces_opened(&options);
    const struct kvt_trace_account *account = kvt_trace_account_of(trace);
    ck_assert_pstr_eq(account->unused, unused);
    ck_assert_pstr_eq(account->unconverted, unconverted);
    kvt_trace_close(trace);
}

START_TEST(what_a_file_says_beside_times_and_lengths_is_named)
{
    check_unused(HEADER "0,1,1\n", NULL, NULL);
    check_unused("arrival_s,input_tokens,output_tokens,think_s,tenant,task,color\n0,1,1,,,,red\n",
                 NULL, NULL);
    check_unused("arrival_s,input_tokens,output_tokens,Think_s,Tenant,task,slo_class\n"
                 "0,1,1,,acme,,a\n1,0,1,2.5,,,\n",
                 "think_s, tenant", "think_s, tenant");
    check_unused("arrival_s,input_tokens,output_tokens,session_id,turn,prefix_group,prefix_tokens\n"
                 "0,1,1,7,0,docs,1\n",
                 NULL, NULL);
    check_unused("arrival_s,input_tokens,output_tokens,session_id,prefix_group,think_s\n"
                 "0,1,1,7,docs,2\n",
                 "prefix_group", "prefix_group");
    check_unused("{\"timestamp\": 0, \"input_length\": 513, \"output_length\": 1, "
                 "\"hash_ids\": [1, 2], \"tenant\": null}\n",
                 NULL, "hash_ids");
    check_unused("{\"arrival_s\": 0, \"in\": 513, \"out\": 1, \"hash_ids\": [1, 2]}\n", "hash_ids",
                 "hash_ids");
    check_unused("{\"chat_id\": 3, \"parent_chat_id\": -1, \"timestamp\": 0, "
                 "\"input_length\": 1, \"output_length\": 1}\n",
                 NULL, NULL);
    check_unused("{\"parent_chat_id\": -1, \"arrival_s\": 0, \"in\": 1, \"out\": 1}\n",
                 "parent_chat_id", "parent_chat_id");
    check_unused("arrival_s,input_tokens,output_tokens,chat_id\n0,1,1,7\n", "chat_id", "chat_id");
    check_unused("{\"arrival_time_ns\": 0, "
                 "\"sub_requests\": [{\"input_toks\": 1, \"output_toks\": 1}]}\n",
                 NULL, NULL);
    check_unused("arrival_s,input_tokens,output_tokens,sub_requests\n0,1,1,7\n", "sub_requests",
                 "sub_requests");
}
END_TEST

START_TEST(a_class_that_nobody_declared_is_found_before_the_run)
{
    static const char *const classes[] = {"chat", "batch"};
    static const char csv[] = "slo_class,arrival_s,input_tokens,output_tokens\n"
                              "chat,0,1,1\n,1,1,1\nnone,2,0,1\nbatch,3,1,1\nBatch,4,1,1\n";
    static const char json[] = "{\"arrival_s\": 0, \"input_tokens\": 1, \"output_tokens\": 1, "
                               "\"slo_class\": \"slow\"}\n";
    struct kvt_trace_options options = traces_options(traces_path());
    support_write(traces_path(), csv, strlen(csv));
    kvt_trace_close(traces_opened(&options)); /* not checked */

    options.slo_classes = classes;
    options.slo_class_count = 2;
    ck_assert_str_eq(
        traces_refusal_with(&options),
        "KVT_ERR_INVALID t:6:1: slo_class \"Batch\" is not among the scenario's slo.classes; "
        "there are: chat, batch");
    options.window_to_s = 4; /* a request that is not used may name any */
    kvt_trace_close(traces_opened(&options));
    options.window_to_s = 5;
    ck_assert_ptr_nonnull(strstr(traces_refusal_with(&options), "t:6:1: slo_class \"Batch\""));

    options.window_to_s = 0;
    support_write(traces_path(), json, strlen(json));
    ck_assert_ptr_nonnull(
        strstr(traces_refusal_with(&options), "t:1#/slo_class: slo_class \"slow\""));
}
END_TEST

/* "code - poem" of the requests in turn. */
static void check_tasks(const struct kvt_trace_options *options, const char *expected)
{
    struct kvt_trace *trace = traces_opened(options);
    char tasks[256] = "";
    struct kvt_request_spec spec;
    while (traces_next(trace, &spec)) {
        size_t used = strlen(tasks);
        (void)snprintf(tasks + used, sizeof tasks - used, "%s%s", used > 0 ? " " : "",
                       spec.task != NULL ? spec.task : "-");
    }
    ck_assert_str_eq(tasks, expected);
    kvt_trace_close(trace);
}

START_TEST(requests_carry_the_tasks_that_somebody_wants)
{
    static const char *const tasks[] = {"default", "code", "7"};
    static const char csv[] = "task,arrival_s,input_tokens,output_tokens\n"
                              "code,%d,1,1\n,2,1,1\n7,3,1,1\ncode,4,1,1\n";
    static const char json[] = "{\"arrival_s\": 0, \"in\": 1, \"out\": 1, \"task\": 7}\n"
                               "{\"arrival_s\": 1, \"in\": 1, \"out\": 1, \"task\": null}\n"
                               "{\"arrival_s\": 2, \"in\": 1, \"out\": 1, \"task\": \"default\"}\n";
    struct kvt_trace_options options = traces_options(traces_path());
    char text[256];
    for (int first_s = 1; first_s <= 5; first_s += 4) {
        (void)snprintf(text, sizeof text, csv, first_s);
        support_write(traces_path(), text, strlen(text));
        options.tasks = NULL;
        options.task_count = 0;
        options.any_task = false;
        check_tasks(&options, "- - - -");
        options.any_task = true;
        check_tasks(&options, first_s == 1 ? "code - 7 code" : "- 7 code code");
        options.tasks = tasks;
        options.task_count = 3;
        check_tasks(&options, first_s == 1 ? "code - 7 code" : "- 7 code code");
    }
    support_write(traces_path(), json, strlen(json));
    check_tasks(&options, "7 - default");
}
END_TEST

START_TEST(a_task_without_a_list_is_found_before_the_run)
{
    static const char *const tasks[] = {"default",
                                        "012345678901234567890123456789012345678901234567890123456"
                                        "789012"};
    static const char csv[] =
        "arrival_s,input_tokens,output_tokens,task\n0,1,1,default\n1,1,0,any\n"
        "2,1,1,code\n";
    struct kvt_trace_options options = traces_options(traces_path());
    char text[256];
    support_write(traces_path(), csv, strlen(csv));
    options.tasks = tasks;
    options.task_count = 1;
    ck_assert_str_eq(traces_refusal_with(&options),
                     "KVT_ERR_INVALID t:4:4: task \"code\" is not in the table of "
                     "speculation.acceptance; there are: default");
    options.window_to_s = 2;
    check_tasks(&options, "default");

    /* A name is compared whole: with one more byte it is another. */
    options.window_to_s = 0;
    options.task_count = 2;
    for (int more = 0; more < 2; more++) {
        (void)snprintf(text, sizeof text, "arrival_s,input_tokens,output_tokens,task\n0,1,1,%s%s\n",
                       tasks[1], more ? "x" : "");
        support_write(traces_path(), text, strlen(text));
        if (more == 0)
            check_tasks(&options, tasks[1]);
    }
    ck_assert_ptr_nonnull(strstr(traces_refusal_with(&options), "t:2:4: task \"0123"));
    options.task_count = 0;
    check_tasks(&options, "-");
    options.any_task = true;
    ck_assert_ptr_nonnull(strstr(traces_refusal_with(&options), "has 64 bytes; at most 63"));
}
END_TEST

START_TEST(a_task_past_the_256th_is_refused_where_all_are_kept)
{
    char text[8192] = "arrival_s,input_tokens,output_tokens,task\n";
    size_t used = strlen(text);
    struct kvt_trace_options options = traces_options(traces_path());
    for (int i = 0; i < 257; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%d,5,6,t%d\n", i, i);
    support_write(traces_path(), text, used);
    kvt_trace_close(traces_opened(&options));
    options.any_task = true;
    traces_assert_holds(traces_refusal_with(&options),
                        "t:258: \"t256\" is one task more than the 256");
}
END_TEST

START_TEST(the_extent_is_that_of_the_requests_used)
{
    support_write(traces_path(), BYTES(HEADER "1,70,1\n2,30,9\n3,70,5\n9,500,500\n"));
    struct kvt_trace_options options = traces_options(traces_path());
    options.window_to_s = 5;
    struct kvt_trace *trace = traces_opened(&options);
    uint32_t longest_tokens = 0;
    uint32_t output_tokens = 0;
    uint32_t inputs[16];
    size_t input_count = 16;
    kvt_trace_extent(trace, &longest_tokens, &output_tokens, inputs, &input_count);
    ck_assert_uint_eq(longest_tokens, 75);
    ck_assert_uint_eq(output_tokens, 9);
    ck_assert_uint_eq(input_count, 2);
    ck_assert_uint_eq(inputs[0], 30);
    ck_assert_uint_eq(inputs[1], 70);
    input_count = 1;
    kvt_trace_extent(trace, &longest_tokens, &output_tokens, inputs, &input_count);
    ck_assert_uint_eq(input_count, 0);
    kvt_trace_close(trace);
}
END_TEST

/* ---- Files that are refused ------------------------------------------------------------- */

static const struct refusal {
    const char *bytes;
    size_t byte_count;
    const char *says;
} refused[] = {
    {BYTES(""), "KVT_ERR_PARSE t: the file is empty"},
    {BYTES("\n \n\r\n"), "KVT_ERR_PARSE t: the file is empty"},
    {BYTES("\xEF\xBB\xBF"), "KVT_ERR_PARSE t: the file is empty"},
    {BYTES(HEADER), "KVT_ERR_PARSE t: the file has no rows (format kvtide)"},
    {BYTES(HEADER "1,0,6\n2,5,0\n"),
     "KVT_ERR_INVALID t: no row of this trace is used: 2 read, 1 zero_input, 1 zero_output"},
    {BYTES(HEADER "1,5,6\n2,5\n"), "KVT_ERR_PARSE t:3: the row has 2 fields, the header 3"},
    {BYTES(HEADER "1,5,6,7\n"), "KVT_ERR_PARSE t:2: the row has 4 fields, the header 3"},
    {BYTES("arrival_s,input_tokens,output_tokens,Input Tokens\n1,5,6,7\n"),
     "KVT_ERR_PARSE t:1:4: column \"Input Tokens\" is here twice (also column 2)"},
    {BYTES("arrival_s,input_tokens,output_tokens,arrival_ms\n1,5,6,1000\n"),
     "t:1:4: columns \"arrival_s\" and \"arrival_ms\" could both be the arrival time"},
    {BYTES("arrival_s,length\n1,5\n"), "the names here (arrival_s, length) are no format's"},
    {BYTES(HEADER "1,5,\n"),
     "t:2:3: the output length (column \"output_tokens\") is empty; it is required"},
    {BYTES(HEADER "1,5,6\n2,13.7,6\n"), "t:3:2: "},
    {BYTES(HEADER "1,-5,6\n"), "t:2:2: "},
    {BYTES(HEADER "-1,5,6\n"), "t:2:1: "},
    {BYTES(HEADER "nan,5,6\n"), "t:2:1: "},
    {BYTES(HEADER "1,inf,6\n"), "t:2:2: "},
    {BYTES(HEADER "1e999,5,6\n"), "t:2:1: "},
    {BYTES(HEADER "-0,5,6\n"), "t:2:1: "},
    {BYTES(HEADER "1,+5,6\n"), "t:2:2: "},
    {BYTES(HEADER "1,0x10,6\n"), "t:2:2: "},
    {BYTES(HEADER "1,\"1,000\",6\n"), "t:2:2: "},
    {BYTES(HEADER "1,2147483648,6\n"), "t:2:2: "},
    {BYTES(HEADER "1,9223372036854775808,6\n"), "t:2:2: "},
    {BYTES(HEADER "9e18,5,6\n"), "t:2:1: "},
    {BYTES(HEADER "1,5,6\n1,5\0,6\n"), "t:3"},
    {BYTES(HEADER "1,5,6\r2,5,6\n"), "t:2"},
    {BYTES("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-02-29 00:00:00,5,6\n"),
     "KVT_ERR_PARSE t:2:1: \"2023-02-29 00:00:00\" is not a time such as"},
    {BYTES("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-02-28 00:00:00.1234567890,5,6\n"),
     "t:2:1: "},
    {BYTES("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-02-28 00:00:00 UTC,5,6\n"), "t:2:1: "},
    {BYTES("TIMESTAMP,ContextTokens,GeneratedTokens\n1969-12-31 23:59:59,5,6\n"), "t:2:1: "},
    {BYTES("{\"arrival_s\": 1, \"in\": 5}\n"), "are no format's"},
    {BYTES("{}\n"), "the names here (none) are no format's"},
    {BYTES("arrival_s,"
           "0123456789012345678901234567890123456789012345678901234567890123\n1,5\n"),
     "the names here (one of 64 characters, too long for a name, arrival_s) are no format's"},
    {BYTES("{\"arrival_s\": 1, \"in\": 5, \"out\": 6}\n{\"arrival_s\": 1, \"in\": 5}\n"),
     "KVT_ERR_PARSE t:2: no output length in this object; it may be named "},
    {BYTES("{\"arrival_s\": 1, \"in\": 5, \"out\": 6}\n{\"arrival_s\": 1,, \"in\": 5}\n"),
     "t:2:17"},
    {BYTES("{\"arrival_s\": 1, \"in\": 5, \"out\": 6, \"in\": 5}\n"), "t:1"},
    {BYTES("{\"arrival_s\": 1, \"in\": 5, \"out\": 6, \"arrival_us\": 5}\n"),
     "KVT_ERR_PARSE t:1#/arrival_us: \"arrival_s\" and \"arrival_us\" could both be"},
    {BYTES("{\"arrival_s\": 1, \"in\": null, \"out\": 6}\n"),
     "KVT_ERR_PARSE t:1#/in: a number is expected here, not null"},
    {BYTES("{\"arrival_s\": 1, \"in\": [5], \"out\": 6}\n"), "t:1#/in: a number is expected here"},
    {BYTES("{\"arrival_s\": -0.5, \"in\": 5, \"out\": 6}\n"),
     "t:1#/arrival_s: arrival_s: found -0.5"},
    {BYTES("{\"arrival_s\": 1, \"in\": -0.0, \"out\": 6}\n"), "t:1#/in: "},
    {BYTES("{\"arrival_s\": 1, \"in\": 13.7, \"out\": 6}\n"),
     "KVT_ERR_INVALID t:1#/in: 13.7 is not a whole number from 0 to 2147483647"},
    {BYTES("{\"arrival_s\": 1e999, \"in\": 5, \"out\": 6}\n"), "t:1"},
    {BYTES("{\"arrival_s\": 1, \"in\": 5, \"out\": 6}\n[1, 5, 6]\n"),
     "KVT_ERR_PARSE t:2: each line holds one object"},
    {BYTES("[{\"id\": \"x\", \"conversations\": []}]"),
     "KVT_ERR_UNSUPPORTED t: an array of JSON values has no arrival times"},
    {BYTES(
         "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 5, \"hash_ids\": [1, 2]}"),
     "KVT_ERR_INVALID t:1#/hash_ids: 2 hash_ids for 6758 input tokens, where blocks of 512 tokens "
     "make 14; block sizes that would fit: 4096"},
    {BYTES("{\"timestamp\": 0, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": [1, 2, "
           "3]}"),
     "block sizes that would fit: 34 (no power of two)"},
    {BYTES("{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 5, \"hash_ids\": [1, 2]}"),
     "block sizes that would fit: none"},
    {BYTES("{\"timestamp\": 0, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": [1.5]}"),
     "entry 0 of hash_ids is not a whole number"},
    {BYTES(
         "{\"timestamp\": 0, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": \"1|2\"}"),
     "hash_ids is a list of whole numbers"},
    {BYTES("{\"chat_id\": 1, \"timestamp\": 0, \"input_length\": 5, \"output_length\": 5}\n"
           "{\"chat_id\": 1, \"timestamp\": 0, \"input_length\": 5, \"output_length\": 5}\n"),
     "KVT_ERR_INVALID t:2#/chat_id: chat 1 is already above"},
    {BYTES("{\"tokenizer_id\": 1, \"request_throughput\": 1, \"start_times\": [1], \"input_lens\": "
           "[1, "
           "2], \"output_lens\": [1]}"),
     "KVT_ERR_PARSE t:1: \"input_lens\" has 2 entries, \"start_times\" 1"},
    {BYTES("{\"tokenizer_id\": 1, \"request_throughput\": 1, \"start_times\": [1], \"input_lens\": "
           "[-1], \"output_lens\": [1]}"),
     "KVT_ERR_INVALID t:1#/input_lens/0: -1 is not a whole number"},
    {BYTES("arrival_s,input_tokens,output_tokens,think_s\n1,5,6,-2\n"), "t:2:4: "},
    {BYTES("arrival_s,input_tokens,output_tokens,slo_class\n1,5,6,"
           "0123456789012345678901234567890123456789\n"),
     "t:2:4: the SLO class \"0123456789012345678901234567890123456789\" has 40 bytes"},
};

START_TEST(what_is_malformed_is_refused_with_its_place)
{
    traces_assert_holds(traces_refusal_of(refused[_i].bytes, refused[_i].byte_count),
                        refused[_i].says);
}
END_TEST

START_TEST(a_seventeenth_class_is_refused)
{
    char text[2048] = "arrival_s,input_tokens,output_tokens,slo_class\n";
    size_t used = strlen(text);
    for (int i = 0; i < 17; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%d,5,6,c%d\n", i, i);
    traces_assert_holds(traces_refusal_of(text, used),
                        "t:18: \"c16\" is one SLO class more than the 16");
}
END_TEST

START_TEST(a_line_past_64_mib_is_refused)
{
    support_write_filled(traces_path(), '1', ((size_t)64 << 20) + 2);
    struct kvt_trace_options options = traces_options(traces_path());
    traces_assert_holds(traces_refusal_with(&options), "KVT_ERR_PARSE t:1");
}
END_TEST

/* A log, or what a tool wrote without line ends: what stands there is told, not "()". */
START_TEST(a_line_too_long_for_a_name_is_said_to_be_one)
{
    support_write_filled(traces_path(), 'a', (size_t)3 << 20);
    struct kvt_trace_options options = traces_options(traces_path());
    traces_assert_holds(traces_refusal_with(&options),
                        "KVT_ERR_PARSE t: the names here (one of 3145728 characters, too long for "
                        "a name) are no format's");
    options.format = "azure";
    traces_assert_holds(traces_refusal_with(&options),
                        "found: one of 3145728 characters, too long for a name");
}
END_TEST

START_TEST(options_outside_their_ranges_are_refused)
{
    struct kvt_trace_options options = traces_options(TRACES_DATA "kvtide.csv");
    options.rate_scale = 0;
    traces_assert_holds(traces_refusal_with(&options), "rate_scale 0 is not from 1e-6 to 1e6");
    options.rate_scale = NAN;
    traces_assert_holds(traces_refusal_with(&options), "rate_scale");
    options.rate_scale = 1;
    options.window_from_s = 3;
    options.window_to_s = 3;
    traces_assert_holds(traces_refusal_with(&options),
                        "the window 3:3 does not end after it begins");
    options.window_to_s = 9;
    traces_assert_holds(traces_refusal_with(&options),
                        "no row of this trace is used: 3 read, 3 outside_window");
    options.path = "";
    traces_assert_holds(traces_refusal_with(&options), "a trace needs the path of its file");
    options.path = TRACES_DATA "none.csv";
    traces_assert_holds(traces_refusal_with(&options), "KVT_ERR_NOT_FOUND");
}
END_TEST

START_TEST(times_that_would_not_fit_the_clock_are_refused)
{
    support_write(traces_path(), BYTES(HEADER "1,5,6\n3000000000,5,6\n"));
    struct kvt_trace_options options = traces_options(traces_path());
    options.rate_scale = 1e-6;
    traces_assert_holds(traces_refusal_with(&options),
                        "at rate_scale 1e-06 the last request comes after");
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    static const char *const files[] = {TRACES_DATA "qwen-bailian.jsonl",
                                        TRACES_DATA "client-trace.csv", TRACES_DATA "vllm.json",
                                        TRACES_DATA "kvtide.csv"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct kvt_trace_options options = traces_options(files[i]);
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

/* ---- Size -------------------------------------------------------------------------------- */

static long resident_kib(void)
{
    struct rusage usage;
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

static void write_million(bool in_order)
{
    FILE *file = fopen(traces_path(), "w");
    ck_assert_ptr_nonnull(file);
    (void)fputs(HEADER, file);
    for (uint32_t i = 0; i < 1000000; i++) {
        uint32_t place = in_order ? i : i ^ 1;
        (void)fprintf(file, "%u.25,%u,%u\n", place, i % 30000 + 1, i % 2000 + 1);
    }
    ck_assert_int_eq(fclose(file), 0);
}

/* Check keeps a record of every assertion, so there are few of them here. */
static void read_million(void)
{
    struct kvt_trace_options options = traces_options(traces_path());
    struct kvt_trace *trace = traces_opened(&options);
    struct kvt_request_spec spec;
    bool more = true;
    bool goes_back = false;
    uint64_t count = 0;
    kvt_ns last_ns = 0;
    while (kvt_trace_next(trace, &spec, &more, NULL) == KVT_OK && more) {
        goes_back = goes_back || spec.arrival_ns < last_ns;
        last_ns = spec.arrival_ns;
        count++;
    }
    ck_assert(!goes_back);
    ck_assert_uint_eq(count, 1000000);
    ck_assert_int_eq(last_ns, INT64_C(999999) * KVT_NS_PER_S);
    kvt_trace_close(trace);
}

START_TEST(a_million_rows_in_order_take_no_memory_and_out_of_order_under_100_mib)
{
    long before_kib = resident_kib();
    write_million(true);
    read_million();
    ck_assert_int_lt(resident_kib() - before_kib, 4 << 10);
    write_million(false);
    read_million();
    ck_assert_int_lt(resident_kib() - before_kib, 100 << 10);
}
END_TEST

static Suite *trace_rules_suite(void)
{
    Suite *suite = suite_create("trace_rules");

    TCase *rules = tcase_create("rules");
    tcase_add_checked_fixture(rules, traces_folder_make, traces_folder_remove);
    tcase_add_loop_test(rules, byte_order_marks_line_ends_blanks_and_quotes_do_no_harm, 0,
                        (int)(sizeof untidy / sizeof untidy[0]));
    tcase_add_test(rules, zero_lengths_are_dropped_and_counted_by_reason);
    tcase_add_test(rules, rows_out_of_order_are_sorted_stably_and_counted);
    tcase_add_test(rules, a_window_starts_time_anew_and_a_scale_divides_it);
    tcase_add_test(rules, what_a_file_says_beside_times_and_lengths_is_named);
    tcase_add_test(rules, a_class_that_nobody_declared_is_found_before_the_run);
    tcase_add_test(rules, requests_carry_the_tasks_that_somebody_wants);
    tcase_add_test(rules, a_task_without_a_list_is_found_before_the_run);
    tcase_add_test(rules, a_task_past_the_256th_is_refused_where_all_are_kept);
    tcase_add_test(rules, the_extent_is_that_of_the_requests_used);
    tcase_add_loop_test(rules, what_is_malformed_is_refused_with_its_place, 0,
                        (int)(sizeof refused / sizeof refused[0]));
    tcase_add_test(rules, a_seventeenth_class_is_refused);
    tcase_add_test(rules, a_line_past_64_mib_is_refused);
    tcase_add_test(rules, a_line_too_long_for_a_name_is_said_to_be_one);
    tcase_add_test(rules, options_outside_their_ranges_are_refused);
    tcase_add_test(rules, times_that_would_not_fit_the_clock_are_refused);
    tcase_add_test(rules, every_allocation_may_fail);
    suite_add_tcase(suite, rules);

    TCase *size = tcase_create("size");
    tcase_set_tags(size, "slow");
    tcase_set_timeout(size, 60);
    tcase_add_checked_fixture(size, traces_folder_make, traces_folder_remove);
    tcase_add_test(size, a_million_rows_in_order_take_no_memory_and_out_of_order_under_100_mib);
    suite_add_tcase(suite, size);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(trace_rules_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
