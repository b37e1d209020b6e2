/* test_json.c -- strict JSON in, one form of JSON out. */
#include <check.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/rng.h"
#include "support/support.h"

#define TEXT(literal) (literal), sizeof(literal) - 1

/* A bad text, and where and why it is refused. */
struct refusal {
    const char *text;
    size_t text_bytes;
    const char *where;
    const char *words; /* in the message */
};

static const struct refusal refusals[] = {
    {TEXT(""), "f:1:1", "the text ends here; expected a value"},
    {TEXT(" \n "), "f:2:2", "the text ends here"},
    {TEXT("\xef\xbb\xbf"), "f:1:1", "the text ends here"},
    {TEXT("\xef\xbb\xbf\xef\xbb\xbf{}"), "f:1:1", "byte 0xef"},
    {TEXT("{\"a\": 1"), "f:1:8", "expected ',' or '}'"},
    {TEXT("{\"a\": "), "f:1:7", "the text ends here"},
    {TEXT("{\"a\""), "f:1:5", "':' after a key"},
    {TEXT("{\"a\" 1}"), "f:1:6", "found '1'; expected ':'"},
    {TEXT("{a: 1}"), "f:1:2", "a key in double quotes"},
    {TEXT("{\"a\": 1,}"), "f:1:9", "found '}'; expected a key"},
    {TEXT("[1, 2,]"), "f:1:7", "found ']'; expected a value"},
    {TEXT("[1 2]"), "f:1:4", "',' or ']'"},
    {TEXT("[1"), "f:1:3", "',' or ']'"},
    {TEXT("{} {}"), "f:1:4", "nothing after the value"},
    {TEXT("{}\n\n  x"), "f:3:3", "nothing after the value"},
    {TEXT("tru"), "f:1:1", "a value: true"},
    {TEXT("True"), "f:1:1", "found 'T'"},
    {TEXT("'a'"), "f:1:1", "found '''"},
    {TEXT("// x\n1"), "f:1:1", "found '/'"},
    {TEXT("NaN"), "f:1:1", "found 'N'"},
    {TEXT("Infinity"), "f:1:1", "found 'I'"},
    {TEXT("-Infinity"), "f:1:2", "a digit after '-'"},
    {TEXT("1e999"), "f:1:1", "1e999 is too large"},
    {TEXT("[0, -1e309]"), "f:1:5", "-1e309 is too large"},
    {TEXT("012"), "f:1:2", "no leading zero"},
    {TEXT("-012"), "f:1:3", "no leading zero"},
    {TEXT("+1"), "f:1:1", "found '+'"},
    {TEXT("1."), "f:1:2", "digits on both sides of a point"},
    {TEXT(".5"), "f:1:1", "found '.'"},
    {TEXT("1.e5"), "f:1:2", "digits on both sides"},
    {TEXT("1e"), "f:1:2", "the number to end here"},
    {TEXT("1e+"), "f:1:2", "the number to end here"},
    {TEXT("0x10"), "f:1:2", "nothing after the value"},
    {TEXT("1.0000000000000000000000000000000000000000000000000000000000000000"), "f:1:1",
     "a number of 66 characters; at most 63"},
    {TEXT("\"abc"), "f:1:1", "a string that is never closed"},
    {TEXT("\"a\nb\""), "f:1:3", "byte 0x0a in a string"},
    {TEXT("\"a\tb\""), "f:1:3", "byte 0x09 in a string"},
    {TEXT("\"a\0b\""), "f:1:3", "byte 0x00 in a string"},
    {TEXT("{}\0"), "f:1:3", "byte 0x00"},
    {TEXT("\0"), "f:1:1", "byte 0x00"},
    {TEXT("\"\\u0000\""), "f:1:2", "a NUL in a string"},
    {TEXT("\"\\x\""), "f:1:3", "found 'x'"},
    {TEXT("\"\\\0\""), "f:1:3", "byte 0x00"},
    {TEXT("\"\\"), "f:1:3", "an escape's letter"},
    {TEXT("\"\\u12\""), "f:1:2", "four hexadecimal digits"},
    {TEXT("\"\\u12g4\""), "f:1:2", "four hexadecimal digits"},
    {TEXT("\"\\ud800\""), "f:1:2", "without its second"},
    {TEXT("\"\\ud800\\u0041\""), "f:1:2", "without its second"},
    {TEXT("\"\\udc00\""), "f:1:2", "without its first"},
    {TEXT("\"\xc3\xa9\xff\""), "f:1:3", "byte 0xff is not valid UTF-8"},
    {TEXT("\"\xc0\xaf\""), "f:1:2", "not valid UTF-8"},
    {TEXT("\"\xe0\x80\xaf\""), "f:1:2", "not valid UTF-8"},
    {TEXT("\"\xed\xa0\x80\""), "f:1:2", "not valid UTF-8"},
    {TEXT("\"\xf4\x90\x80\x80\""), "f:1:2", "not valid UTF-8"},
    {TEXT("\"\xe2\x82\""), "f:1:2", "not valid UTF-8"},
    {TEXT("\"\xe2\x82"), "f:1:2", "not valid UTF-8"},
    {TEXT("{\"a\": 1, \"b\": 2,\n \"a\": 3}"), "f:2:2", "the key \"a\" stands on line 1 already"},
    {TEXT("{\"a\": 1, \"\\u0061\": 2}"), "f:1:10", "stands on line 1 already"},
    {TEXT("{\"\\ud83d\\ude00\": 1, \"\xf0\x9f\x98\x80\": 2}"), "f:1:21", "stands on line 1"},
    {TEXT("{\"x\\n\": 1, \"x\\u000a\": 2}"), "f:1:12", "stands on line 1"},
    {TEXT("{\"\": 1, \"\": 2}"), "f:1:9", "stands on line 1"},
    {TEXT("[{\"k\": {\"k\": 1, \"l\": 2, \"k\": 3}}]"), "f:1:25", "the key \"k\""},
    {TEXT("{\"b\":1,\"a\":1,\"b\":1,\"a\":1}"), "f:1:14", "the key \"b\""},
};

START_TEST(what_is_not_strict_json_is_refused_where_it_goes_wrong)
{
    const struct refusal *row = &refusals[_i];
    /* In a buffer of its own size, so that a sanitizer sees a read past it. */
    char *copy = malloc(row->text_bytes + (row->text_bytes == 0));
    memcpy(copy, row->text, row->text_bytes);
    struct kvt_error err = {0};
    cJSON *tree = NULL;
    kvt_status status = kvt_json_parse(copy, row->text_bytes, "f", 1, &tree, &err);
    free(copy);
    ck_assert_msg(status == KVT_ERR_PARSE, "row %d: %s", _i, kvt_status_name(status));
    ck_assert_ptr_null(tree);
    ck_assert_msg(strcmp(err.where, row->where) == 0, "row %d: at %s", _i, err.where);
    ck_assert_msg(strstr(err.message, row->words) != NULL, "row %d: %s", _i, err.message);
}
END_TEST

static cJSON *parsed(const char *text)
{
    struct kvt_error err = {0};
    cJSON *tree = NULL;
    kvt_status status = kvt_json_parse(text, strlen(text), "f", 1, &tree, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    return tree;
}

START_TEST(strict_json_is_accepted)
{
    static const char *const good[] = {
        "null",
        " true\r\n",
        "\xef\xbb\xbf{}",
        "\xef\xbb\xbf\r\n[]\r\n",
        "-0",
        "0.5e-3",
        "1E+2",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"",
        "\"\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\"",
        "{\"a\": {\"a\": 1}, \"A\": 2, \"\": 3}",
        "[[], {}, [[{}]], \"\x7f\"]",
        "1e308",
        "1e-999",
        "123456789012345678901234567890123456789012345678901234567890123",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        cJSON_Delete(parsed(good[i]));
}
END_TEST

START_TEST(text_is_decoded_to_utf_8)
{
    cJSON *tree = parsed("\"\\u00e9\\ud83d\\ude00\\/\"");
    ck_assert_str_eq(tree->valuestring, "\xc3\xa9\xf0\x9f\x98\x80/");
    cJSON_Delete(tree);
}
END_TEST

START_TEST(lines_are_counted_from_the_one_given)
{
    struct kvt_error err;
    cJSON *tree = NULL;
    ck_assert_int_eq(kvt_json_parse("{\n!", 3, "t.jsonl", 17, &tree, &err), KVT_ERR_PARSE);
    ck_assert_str_eq(err.where, "t.jsonl:18:1");
}
END_TEST

START_TEST(sixty_four_levels_are_read_and_sixty_five_refused)
{
    char text[200] = "";
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    cJSON *tree = NULL;
    struct kvt_error err;
    ck_assert_int_eq(kvt_json_parse(text, 128, "f", 1, &tree, &err), KVT_OK);
    cJSON_Delete(tree);
    tree = NULL;
    memset(text, '[', 65);
    ck_assert_int_eq(kvt_json_parse(text, 65, "f", 1, &tree, &err), KVT_ERR_PARSE);
    ck_assert_str_eq(err.where, "f:1:65");
    ck_assert_ptr_null(tree);

    /* However deep: no recursion beyond the limit. */
    char *deep = malloc(1000000);
    memset(deep, '[', 1000000);
    ck_assert_int_eq(kvt_json_parse(deep, 1000000, "f", 1, &tree, &err), KVT_ERR_PARSE);
    free(deep);
}
END_TEST

START_TEST(a_text_cut_anywhere_is_refused)
{
    static const char whole[] = "{\"a\": [1.5e3, true, {\"b\": \"\\u00e9\xc3\xa9\"}], \"c\": null}";
    for (size_t bytes = 0; bytes < sizeof whole - 1; bytes++) {
        char *copy = malloc(bytes + 1);
        memcpy(copy, whole, bytes);
        cJSON *tree = NULL;
        ck_assert_int_eq(kvt_json_parse(copy, bytes, "f", 1, &tree, NULL), KVT_ERR_PARSE);
        free(copy);
    }
}
END_TEST

START_TEST(whatever_the_bytes_the_answer_is_a_tree_or_a_place)
{
    static const char seed[] =
        "{\"a\": [1.5e3, true, {\"b\": \"\\ud83d\\ude00\xc3\xa9\"}], \"c\": null}";
    struct kvt_rng rng = kvt_rng_stream(1, KVT_RNG_TEST, 0);
    for (int i = 0; i < 20000; i++) {
        char text[sizeof seed];
        memcpy(text, seed, sizeof seed);
        for (uint64_t changes = 1 + kvt_rng_below(&rng, 3); changes > 0; changes--) {
            static const char alphabet[] = "{}[]\",:\\u0123ae.-+ \n\x80\xff\xc3\xf0tn";
            uint64_t at = kvt_rng_below(&rng, sizeof seed - 1);
            text[at] = alphabet[kvt_rng_below(&rng, sizeof alphabet - 1)];
        }
        cJSON *tree = NULL;
        struct kvt_error err = {0};
        kvt_status status = kvt_json_parse(text, sizeof text - 1, "f", 1, &tree, &err);
        /* KVT_ERR_NOMEM would be a text that our grammar takes and cJSON does not. */
        if ((status != KVT_OK && status != KVT_ERR_PARSE) || (status == KVT_OK) != (tree != NULL))
            ck_abort_msg("case %d: %s: %s", i, kvt_status_name(status), text);
        if (tree == NULL)
            continue;
        char *printed = kvt_json_print(tree);
        cJSON *again = parsed(printed);
        ck_assert(cJSON_Compare(tree, again, true));
        free(printed);
        cJSON_Delete(again);
        cJSON_Delete(tree);
    }
}
END_TEST

START_TEST(many_keys_are_checked_in_little_time)
{
    enum {
        KEYS = 200000
    };
    char *text = malloc(KEYS * 16);
    size_t used = 0;
    text[used++] = '{';
    for (int i = 0; i < KEYS; i++)
        used += (size_t)sprintf(text + used, "%s\"key%d\":%d", i > 0 ? "," : "", i, i % 10);
    text[used++] = '}';
    cJSON *tree = NULL;
    ck_assert_int_eq(kvt_json_parse(text, used, "f", 1, &tree, NULL), KVT_OK);
    cJSON_Delete(tree);
    free(text);
}
END_TEST

START_TEST(a_file_is_loaded_and_its_name_is_in_the_error)
{
    struct support_folder folder;
    char path[SUPPORT_PATH_BYTES];
    char expected[SUPPORT_PATH_BYTES + 8];
    support_folder_make(&folder);
    support_path(&folder, "m.json", path);
    cJSON *tree = NULL;
    struct kvt_error err;

    support_write(path, TEXT("\xef\xbb\xbf{\"a\": 1}\r\n"));
    ck_assert_int_eq(kvt_json_load(path, 100, &tree, &err), KVT_OK);
    cJSON_Delete(tree);
    tree = NULL;
    ck_assert_int_eq(kvt_json_load(path, 10, &tree, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.where, path);
    support_write(path, TEXT("{\n  \"a\": 01}"));
    ck_assert_int_eq(kvt_json_load(path, 100, &tree, &err), KVT_ERR_PARSE);
    (void)snprintf(expected, sizeof expected, "%s:2:9", path);
    ck_assert_str_eq(err.where, expected);
    ck_assert_int_eq(kvt_json_load(folder.path, 100, &tree, &err), KVT_ERR_IO);
    support_path(&folder, "none.json", path);
    ck_assert_int_eq(kvt_json_load(path, 100, &tree, &err), KVT_ERR_NOT_FOUND);
    ck_assert_ptr_null(tree);
    support_folder_remove(&folder);
}
END_TEST

START_TEST(keys_are_found_by_exact_name)
{
    cJSON *tree = parsed("{\"Tokens\": 1, \"tokens\": 2}");
    ck_assert_double_eq(kvt_json_find(tree, "tokens")->valuedouble, 2.0);
    ck_assert_ptr_null(kvt_json_find(tree, "TOKENS"));
    ck_assert_ptr_null(kvt_json_find(tree->child, "tokens"));
    ck_assert_ptr_null(kvt_json_find(NULL, "tokens"));
    cJSON_Delete(tree);
}
END_TEST

START_TEST(counts_are_whole_and_in_range)
{
    static const struct {
        const char *text, *message;
        uint64_t value;
    } rows[] = {
        {"{\"k\": 1}", NULL, 1},
        {"{\"k\": 1000}", NULL, 1000},
        {"{\"k\": 1e2}", NULL, 100},
        {"{\"k\": 17.0}", NULL, 17},
        {"{\"k\": 0.5}", "0.5 is not a whole number (1 to 1000)", 0},
        {"{\"k\": 0}", "0 is out of range, expected 1 to 1000", 0},
        {"{\"k\": 1001}", "1001 is out of range, expected 1 to 1000", 0},
        {"{\"k\": -3}", "-3 is out of range, expected 1 to 1000", 0},
        {"{\"k\": -0}", "-0 is not a whole number (1 to 1000)", 0},
        {"{\"k\": \"5\"}", "the text \"5\" is not a whole number (1 to 1000)", 0},
        {"{\"k\": true}", "true is not a whole number (1 to 1000)", 0},
        {"{\"k\": null}", "null is not a whole number (1 to 1000)", 0},
        {"{\"k\": [1]}", "an array is not a whole number (1 to 1000)", 0},
        {"{\"k\": {}}", "an object is not a whole number (1 to 1000)", 0},
        {"{\"K\": 1}", "missing; expected a whole number (1 to 1000)", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cJSON *tree = parsed(rows[i].text);
        struct kvt_error err = {0};
        uint64_t value = 999;
        kvt_status status = kvt_json_get_u64(tree, "f#/a", "k", true, 1, 1000, &value, &err);
        cJSON_Delete(tree);
        ck_assert_msg((status == KVT_OK) == (rows[i].message == NULL), "row %zu", i);
        ck_assert_uint_eq(value, status == KVT_OK ? rows[i].value : 999);
        if (rows[i].message != NULL) {
            ck_assert_int_eq(status, KVT_ERR_INVALID);
            ck_assert_str_eq(err.message, rows[i].message);
            ck_assert_str_eq(err.where, "f#/a/k");
        }
    }
}
END_TEST

START_TEST(counts_past_two_to_the_53_are_refused_even_where_more_is_allowed)
{
    static const struct {
        const char *text;
        kvt_status status;
    } rows[] = {
        {"{\"k\": 9007199254740992}", KVT_OK},
        {"{\"k\": 9007199254740994}", KVT_ERR_INVALID},
        {"{\"k\": 9223372036854775808}", KVT_ERR_INVALID},
        {"{\"k\": 1e300}", KVT_ERR_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cJSON *tree = parsed(rows[i].text);
        uint64_t value = 0;
        ck_assert_int_eq(kvt_json_get_u64(tree, "f#", "k", true, 0, UINT64_MAX, &value, NULL),
                         rows[i].status);
        cJSON_Delete(tree);
    }
}
END_TEST

START_TEST(every_reader_checks_its_type_and_honours_optional)
{
    cJSON *tree = parsed("{\"f\": 2.385, \"t\": \"lru\", \"b\": true, \"o\": {}, \"a\": [1]}");
    struct kvt_error err = {0};
    double real = 0.0;
    ck_assert_int_eq(kvt_json_get_f64(tree, "w", "f", true, 0.0, 3.0, &real, &err), KVT_OK);
    ck_assert_double_eq(real, 2.385);
    ck_assert_int_eq(kvt_json_get_f64(tree, "w", "f", true, 0.0, 2.0, &real, &err),
                     KVT_ERR_INVALID);
    ck_assert_str_eq(err.message, "2.385 is out of range, expected 0 to 2");
    ck_assert_int_eq(kvt_json_get_f64(tree, "w", "f", true, 3.0, INFINITY, &real, &err),
                     KVT_ERR_INVALID);
    ck_assert_str_eq(err.message, "2.385 is out of range, expected 3 to inf");
    ck_assert_int_eq(kvt_json_get_f64(tree, "w", "t", true, 0.0, 3.0, &real, &err),
                     KVT_ERR_INVALID);
    ck_assert_int_eq(kvt_json_get_f64(tree, "w", "x", true, 0.0, 3.0, &real, &err),
                     KVT_ERR_INVALID);
    ck_assert_int_eq(kvt_json_get_f64(tree, "w", "x", false, 0.0, 3.0, &real, &err), KVT_OK);
    ck_assert_double_eq(real, 2.385);

    const char *text = "as it was";
    ck_assert_int_eq(kvt_json_get_text(tree, "w", "x", false, &text, &err), KVT_OK);
    ck_assert_str_eq(text, "as it was");
    ck_assert_int_eq(kvt_json_get_text(tree, "w", "b", false, &text, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.message, "true is not a text");
    ck_assert_int_eq(kvt_json_get_text(tree, "w", "t", true, &text, &err), KVT_OK);
    ck_assert_str_eq(text, "lru");
    struct kvt_arena *arena = kvt_arena_new(64);
    ck_assert_ptr_nonnull(arena);
    const char *own = NULL;
    ck_assert_int_eq(kvt_json_copy_text(tree, "w", "t", arena, &own, &err), KVT_OK);
    ck_assert_str_eq(own, "lru");
    ck_assert_ptr_ne(own, text);
    ck_assert_int_eq(kvt_json_copy_text(tree, "w", "x", arena, &own, &err), KVT_ERR_INVALID);
    ck_assert_int_eq(kvt_json_copy_text(tree, "w", "b", arena, &own, &err), KVT_ERR_INVALID);
    kvt_arena_free(arena);

    bool flag = false;
    ck_assert_int_eq(kvt_json_get_bool(tree, "w", "b", true, &flag, &err), KVT_OK);
    ck_assert(flag);
    ck_assert_int_eq(kvt_json_get_bool(tree, "w", "f", true, &flag, &err), KVT_ERR_INVALID);
    ck_assert_int_eq(kvt_json_get_bool(tree, "w", "x", false, &flag, &err), KVT_OK);
    ck_assert(flag);

    const cJSON *item = tree;
    ck_assert_int_eq(kvt_json_get_object(tree, "w", "a", true, &item, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.message, "an array is not an object");
    ck_assert_ptr_eq(item, tree);
    ck_assert_int_eq(kvt_json_get_object(tree, "w", "o", true, &item, &err), KVT_OK);
    ck_assert(cJSON_IsObject(item));
    ck_assert_int_eq(kvt_json_get_object(tree, "w", "x", true, &item, &err), KVT_ERR_INVALID);
    ck_assert_int_eq(kvt_json_get_object(tree, "w", "x", false, &item, &err), KVT_OK);
    ck_assert_ptr_null(item);
    ck_assert_int_eq(kvt_json_get_array(tree, "w", "a", true, &item, &err), KVT_OK);
    ck_assert_int_eq(cJSON_GetArraySize(item), 1);
    ck_assert_int_eq(kvt_json_get_array(tree, "w", "o", true, &item, &err), KVT_ERR_INVALID);
    ck_assert_int_eq(kvt_json_get_array(tree, "w", "x", false, &item, &err), KVT_OK);
    ck_assert_ptr_null(item);
    cJSON_Delete(tree);
}
END_TEST

START_TEST(readers_and_key_checks_want_an_object)
{
    cJSON *tree = parsed("[1]");
    struct kvt_error err = {0};
    uint64_t value = 0;
    static const char *const keys[] = {"a"};
    ck_assert_int_eq(kvt_json_get_u64(tree, "f#", "k", false, 0, 9, &value, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.where, "f#");
    ck_assert_str_eq(err.message, "an array is not an object");
    ck_assert_int_eq(kvt_json_check_keys(tree, "f#", keys, 1, &err), KVT_ERR_INVALID);
    ck_assert_int_eq(kvt_json_check_keys(NULL, "f#", keys, 1, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.message, "missing; expected an object");
    cJSON_Delete(tree);
}
END_TEST

START_TEST(unknown_keys_are_refused_with_those_that_are_known)
{
    static const char *const keys[] = {"model", "seed"};
    cJSON *tree = parsed("{\"seed\": 1, \"Model\": 2, \"x\": 3}");
    struct kvt_error err = {0};
    ck_assert_int_eq(kvt_json_check_keys(tree, "f#/run", keys, 2, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.where, "f#/run/Model");
    ck_assert_str_eq(err.message, "no such key here; there are: model seed");
    cJSON_Delete(tree);
    tree = parsed("{\"a/b~c\": 1}");
    ck_assert_int_eq(kvt_json_check_keys(tree, "f#", keys, 0, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.where, "f#/a~1b~0c");
    ck_assert_str_eq(err.message, "no such key here; there are: none");
    cJSON_Delete(tree);
    tree = parsed("{\"seed\": 1, \"model\": 2}");
    ck_assert_int_eq(kvt_json_check_keys(tree, "f#", keys, 2, &err), KVT_OK);
    cJSON_Delete(tree);
}
END_TEST

START_TEST(a_place_of_any_length_fits)
{
    char key[600];
    memset(key, '/', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    cJSON *tree = parsed("{}");
    for (size_t length = 0; length < sizeof key; length++) {
        struct kvt_error err;
        uint64_t value = 0;
        ck_assert_int_eq(kvt_json_get_u64(tree, "w", key + length, true, 0, 9, &value, &err),
                         KVT_ERR_INVALID);
        ck_assert_int_eq(kvt_json_get_u64(tree, key + length, "k", true, 0, 9, &value, &err),
                         KVT_ERR_INVALID);
    }
    cJSON_Delete(tree);
}
END_TEST

static const struct {
    double value;
    const char *text;
} numbers[] = {
    {0.0, "0"},
    {-0.0, "-0"},
    {1.0, "1"},
    {-17.0, "-17"},
    {100032.0, "100032"},
    {0.1, "0.1"},
    {0.1 + 0.2, "0.30000000000000004"},
    {2.385, "2.385"},
    {1.0 / 3.0, "0.3333333333333333"},
    {1e15, "1000000000000000"},
    {9007199254740992.0, "9007199254740992"},
    {18446744073709551616.0, "1.8446744073709552e+19"},
    {1e22, "1e+22"},
    {1e-7, "1e-07"},
    {DBL_MAX, "1.7976931348623157e+308"},
    {-DBL_MAX, "-1.7976931348623157e+308"},
    {DBL_MIN, "2.2250738585072014e-308"},
    {5e-324, "5e-324"},
    {INFINITY, "null"},
    {-INFINITY, "null"},
    {NAN, "null"},
};

START_TEST(numbers_are_printed_in_their_shortest_form)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char text[32];
        kvt_json_print_number(numbers[i].value, text);
        ck_assert_str_eq(text, numbers[i].text);
    }
}
END_TEST

START_TEST(every_double_reads_back_as_itself)
{
    struct kvt_rng rng = kvt_rng_stream(4, KVT_RNG_TEST, 0);
    for (int i = 0; i < 50000; i++) {
        uint64_t bits = kvt_rng_u64(&rng);
        if (i % 4 == 0)
            bits &= ~(UINT64_C(0x7ff) << 52); /* subnormal */
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        char text[32];
        kvt_json_print_number(value, text);
        double back = strtod(text, NULL);
        if (back != value || signbit(back) != signbit(value))
            ck_abort_msg("%a became %a", value, back);
    }
}
END_TEST

START_TEST(numbers_do_not_depend_on_the_locale)
{
    /* Where no locale with a comma is installed, this repeats the plain case. */
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "ps_AF.UTF-8"};
    for (size_t i = 0; i < sizeof commas / sizeof commas[0]; i++) {
        if (setlocale(LC_NUMERIC, commas[i]) != NULL)
            break;
    }
    char text[32];
    kvt_json_print_number(2.385, text);
    cJSON *tree = parsed("[2.385, 1e308]");
    double value = tree->child->valuedouble;
    cJSON_Delete(tree);
    (void)setlocale(LC_NUMERIC, "C");
    ck_assert_str_eq(text, "2.385");
    ck_assert_double_eq(value, 2.385);
}
END_TEST

START_TEST(a_tree_is_printed_in_one_form)
{
    cJSON *tree = parsed("{\"b\":[1,2.5,\"x\"],\"a\":{},\"c\":[],\"d\":[{\"e\":null},[true,false]],"
                         "\"t\":\"\\\"\\\\\\u0001\\n\xc3\xa9/\"}");
    char *text = kvt_json_print(tree);
    ck_assert_str_eq(text, "{\n"
                           "  \"b\": [1, 2.5, \"x\"],\n"
                           "  \"a\": {},\n"
                           "  \"c\": [],\n"
                           "  \"d\": [\n"
                           "    {\n"
                           "      \"e\": null\n"
                           "    },\n"
                           "    [true, false]\n"
                           "  ],\n"
                           "  \"t\": \"\\\"\\\\\\u0001\\n\xc3\xa9/\"\n"
                           "}");
    free(text);
    cJSON_Delete(tree);
}
END_TEST

START_TEST(long_texts_are_printed_whole)
{
    char *longest = malloc(100001);
    memset(longest, 'x', 100000);
    longest[100000] = '\0';
    cJSON *tree = cJSON_CreateString(longest);
    char *text = kvt_json_print(tree);
    ck_assert_uint_eq(strlen(text), 100002);
    free(text);
    cJSON_Delete(tree);
    free(longest);
}
END_TEST

START_TEST(short_memory_is_reported_and_nothing_leaks)
{
    if (!support_can_fail_allocations())
        return;
    static const char source[] = "{\"a\": [1, \"xyz\", {\"b\": null}], \"c\": 2}";
    for (uint64_t nth = 0;; nth++) {
        cJSON *tree = NULL;
        support_fail_allocation(nth);
        kvt_status status = kvt_json_parse(source, sizeof source - 1, "f", 1, &tree, NULL);
        bool has_failed = support_allocation_failed();
        ck_assert_int_eq(status, has_failed ? KVT_ERR_NOMEM : KVT_OK);
        ck_assert_int_eq(tree == NULL, has_failed);
        cJSON_Delete(tree);
        if (!has_failed)
            break;
    }
    cJSON *tree = cJSON_CreateArray();
    for (int i = 0; i < 1000; i++)
        cJSON_AddItemToArray(tree, cJSON_CreateNumber(i + 0.5));
    for (uint64_t nth = 0;; nth++) {
        support_fail_allocation(nth);
        char *text = kvt_json_print(tree);
        bool has_failed = support_allocation_failed();
        ck_assert_int_eq(text == NULL, has_failed);
        free(text);
        if (!has_failed)
            break;
    }
    cJSON_Delete(tree);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json");
    TCase *cases = tcase_create("strictness");
    tcase_add_loop_test(cases, what_is_not_strict_json_is_refused_where_it_goes_wrong, 0,
                        (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_test(cases, strict_json_is_accepted);
    tcase_add_test(cases, text_is_decoded_to_utf_8);
    tcase_add_test(cases, lines_are_counted_from_the_one_given);
    tcase_add_test(cases, sixty_four_levels_are_read_and_sixty_five_refused);
    tcase_add_test(cases, a_text_cut_anywhere_is_refused);
    tcase_add_test(cases, whatever_the_bytes_the_answer_is_a_tree_or_a_place);
    tcase_add_test(cases, many_keys_are_checked_in_little_time);
    tcase_add_test(cases, a_file_is_loaded_and_its_name_is_in_the_error);
    tcase_add_test(cases, keys_are_found_by_exact_name);
    tcase_add_test(cases, counts_are_whole_and_in_range);
    tcase_add_test(cases, counts_past_two_to_the_53_are_refused_even_where_more_is_allowed);
    tcase_add_test(cases, every_reader_checks_its_type_and_honours_optional);
    tcase_add_test(cases, readers_and_key_checks_want_an_object);
    tcase_add_test(cases, unknown_keys_are_refused_with_those_that_are_known);
    tcase_add_test(cases, a_place_of_any_length_fits);
    tcase_add_test(cases, numbers_are_printed_in_their_shortest_form);
    tcase_add_test(cases, every_double_reads_back_as_itself);
    tcase_add_test(cases, numbers_do_not_depend_on_the_locale);
    tcase_add_test(cases, a_tree_is_printed_in_one_form);
    tcase_add_test(cases, long_texts_are_printed_whole);
    tcase_add_test(cases, short_memory_is_reported_and_nothing_leaks);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
