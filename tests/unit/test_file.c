/* test_file.c -- files that are whole, lines of any length, text that is a number. */
#define _XOPEN_SOURCE 700 /* truncate(), SIGXFSZ */

#include <check.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvt/file.h"
#include "support/support.h"

#define TEXT(literal) (literal), sizeof(literal) - 1

enum {
    LINE_BYTES_MAX = 64 << 20
};

static struct support_folder folder;
static char path[SUPPORT_PATH_BYTES];

static void make_folder(void)
{
    support_folder_make(&folder);
    support_path(&folder, "out.json", path);
}

static void remove_folder(void)
{
    support_folder_remove(&folder);
}

START_TEST(a_file_is_read_as_it_is)
{
    char *text = NULL;
    size_t bytes = 0;
    struct kvt_error err;
    support_write(path, TEXT("a\0b\r\n"));
    ck_assert_int_eq(kvt_file_read(path, 5, &text, &bytes, &err), KVT_OK);
    ck_assert_uint_eq(bytes, 5);
    ck_assert_mem_eq(text, "a\0b\r\n\0", 6);
    free(text);
    support_write(path, "", 0);
    ck_assert_int_eq(kvt_file_read(path, 0, &text, &bytes, &err), KVT_OK);
    ck_assert_uint_eq(bytes, 0);
    ck_assert_str_eq(text, "");
    free(text);
}
END_TEST

START_TEST(a_file_past_the_limit_is_refused_before_it_is_read)
{
    char *text = NULL;
    size_t bytes = 17;
    struct kvt_error err;
    support_write(path, "x", 1);
    ck_assert_int_eq(truncate(path, INT64_C(1) << 40), 0); /* a hole: a terabyte of nothing */
    ck_assert_int_eq(kvt_file_read(path, 1000, &text, &bytes, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.where, path);
    ck_assert_str_eq(err.message, "larger than the 1000 bytes that are read here");
    ck_assert_ptr_null(text);
    ck_assert_uint_eq(bytes, 17);
}
END_TEST

START_TEST(what_says_no_size_is_read_to_its_end_or_the_limit)
{
    char *text = NULL;
    size_t bytes = 0;
    struct kvt_error err;
    ck_assert_int_eq(kvt_file_read("/proc/self/maps", 1 << 24, &text, &bytes, &err), KVT_OK);
    ck_assert_uint_gt(bytes, 100);
    free(text);
    text = NULL;
    ck_assert_int_eq(kvt_file_read("/proc/self/maps", 100, &text, &bytes, &err), KVT_ERR_INVALID);
    ck_assert_ptr_null(text);
}
END_TEST

START_TEST(what_is_no_ordinary_file_is_refused_and_not_waited_for)
{
    FILE *stream = NULL;
    char *text = NULL;
    size_t bytes = 0;
    struct kvt_lines *lines = NULL;
    struct kvt_error err;
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* that nobody writes to */
    ck_assert_int_eq(kvt_file_open(path, &stream, &err), KVT_ERR_IO);
    ck_assert_str_eq(err.where, path);
    ck_assert_str_eq(err.message,
                     "this is not an ordinary file; one is needed, which can be read twice");
    ck_assert_int_eq(kvt_file_read(path, 10, &text, &bytes, &err), KVT_ERR_IO);
    ck_assert_int_eq(kvt_lines_open(path, &lines, &err), KVT_ERR_IO);
    ck_assert_int_eq(kvt_file_read("/dev/zero", 10, &text, &bytes, &err), KVT_ERR_IO);
    ck_assert_ptr_null(text);
}
END_TEST

START_TEST(two_names_of_one_file_are_the_same)
{
    char other[SUPPORT_PATH_BYTES];
    support_write(path, "x", 1);
    support_path(&folder, "other", other);
    ck_assert(kvt_file_is_same(path, path));
    ck_assert(!kvt_file_is_same(path, other)); /* it does not exist */
    ck_assert_int_eq(link(path, other), 0);
    ck_assert(kvt_file_is_same(path, other));
    ck_assert_int_eq(unlink(other), 0);
    support_write(other, "x", 1);
    ck_assert(!kvt_file_is_same(path, other));
}
END_TEST

START_TEST(what_cannot_be_read_says_so)
{
    char *text = NULL;
    size_t bytes = 0;
    struct kvt_error err;
    ck_assert_int_eq(kvt_file_read(path, 10, &text, &bytes, &err), KVT_ERR_NOT_FOUND);
    ck_assert_str_eq(err.message, "the file cannot be opened: No such file or directory");
    ck_assert_int_eq(kvt_file_read(folder.path, 10, &text, &bytes, &err), KVT_ERR_IO);
    ck_assert_str_eq(err.message, "the file cannot be read: Is a directory");
    ck_assert_int_eq(kvt_file_read("", 10, &text, &bytes, &err), KVT_ERR_NOT_FOUND);
}
END_TEST

START_TEST(reading_with_short_memory_leaks_nothing)
{
    if (!support_can_fail_allocations())
        return;
    char *text = NULL;
    size_t bytes = 0;
    support_write(path, "abc", 3);
    support_fail_allocation(0);
    kvt_status status = kvt_file_read(path, 10, &text, &bytes, NULL);
    ck_assert(support_allocation_failed());
    ck_assert_int_eq(status, KVT_ERR_NOMEM);
    ck_assert_ptr_null(text);
}
END_TEST

static struct kvt_outfile *opened(const char *name)
{
    struct kvt_outfile *file = NULL;
    struct kvt_error err = {0};
    ck_assert_msg(kvt_outfile_open(name, &file, &err) == KVT_OK, "%s", err.message);
    return file;
}

static void check_content(const char *name, const char *expected)
{
    char *text = support_read(name, NULL);
    ck_assert_ptr_nonnull(text);
    ck_assert_str_eq(text, expected);
    free(text);
}

START_TEST(a_file_appears_when_it_is_committed_and_not_before)
{
    struct kvt_outfile *file = opened(path);
    (void)fputs("hello\n", kvt_outfile_stream(file));
    (void)fflush(kvt_outfile_stream(file));
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_int_eq(kvt_outfile_commit(file, NULL), KVT_OK);
    check_content(path, "hello\n");
    ck_assert_uint_eq(support_folder_entries(folder.path), 1);
}
END_TEST

START_TEST(an_older_file_stays_until_the_commit_and_after_a_discard)
{
    support_write(path, TEXT("old"));
    struct kvt_outfile *file = opened(path);
    (void)fputs("new", kvt_outfile_stream(file));
    kvt_outfile_discard(file);
    check_content(path, "old");
    ck_assert_uint_eq(support_folder_entries(folder.path), 1);

    file = opened(path);
    (void)fputs("new", kvt_outfile_stream(file));
    check_content(path, "old");
    ck_assert_int_eq(kvt_outfile_commit(file, NULL), KVT_OK);
    check_content(path, "new");
    kvt_outfile_discard(NULL);
}
END_TEST

START_TEST(two_writers_of_one_file_do_not_mix)
{
    struct kvt_outfile *a = opened(path);
    struct kvt_outfile *b = opened(path);
    (void)fputs("aaaa", kvt_outfile_stream(a));
    (void)fputs("bb", kvt_outfile_stream(b));
    ck_assert_int_eq(kvt_outfile_commit(a, NULL), KVT_OK);
    ck_assert_int_eq(kvt_outfile_commit(b, NULL), KVT_OK);
    check_content(path, "bb");
    ck_assert_uint_eq(support_folder_entries(folder.path), 1);
}
END_TEST

START_TEST(the_new_file_s_mode_is_what_the_umask_leaves)
{
    mode_t before = umask(027);
    struct kvt_outfile *file = opened(path);
    kvt_status status = kvt_outfile_commit(file, NULL);
    (void)umask(before);
    ck_assert_int_eq(status, KVT_OK);
    struct stat info;
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_uint_eq(info.st_mode & 0777u, 0640);
}
END_TEST

START_TEST(a_disk_that_is_full_is_reported_and_nothing_remains)
{
    /* A limit on the size of files makes write(2) fail as a full disk does. */
    struct sigaction ignored = {.sa_handler = SIG_IGN};
    struct sigaction before;
    struct rlimit limit;
    ck_assert_int_eq(sigaction(SIGXFSZ, &ignored, &before), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit low = {.rlim_cur = 10000, .rlim_max = limit.rlim_max};
    struct kvt_error errs[2] = {{0}, {0}};
    kvt_status statuses[2];

    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &low), 0);
    for (int i = 0; i < 2; i++) {
        /* Once noticed while writing, once only at the last flush. */
        struct kvt_outfile *file = opened(path);
        (void)setvbuf(kvt_outfile_stream(file), NULL, _IOFBF, i == 0 ? 512 : 1 << 16);
        for (int j = 0; j < 20000; j++)
            (void)fputc('x', kvt_outfile_stream(file));
        statuses[i] = kvt_outfile_commit(file, &errs[i]);
    }
    (void)setrlimit(RLIMIT_FSIZE, &limit);
    (void)sigaction(SIGXFSZ, &before, NULL);

    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(statuses[i], KVT_ERR_SYSTEM);
        ck_assert_str_eq(errs[i].message, "the file cannot be written: File too large");
    }
    ck_assert_uint_eq(support_folder_entries(folder.path), 0);
}
END_TEST

START_TEST(a_place_that_cannot_be_written_is_refused_at_once)
{
    struct kvt_outfile *file = NULL;
    struct kvt_error err;
    char other[SUPPORT_PATH_BYTES];
    ck_assert_int_eq(kvt_outfile_open(support_path(&folder, "none/x", other), &file, &err),
                     KVT_ERR_SYSTEM);
    ck_assert_str_eq(err.where, other);
    ck_assert_int_eq(kvt_outfile_open(folder.path, &file, &err), KVT_ERR_SYSTEM);
    ck_assert_int_eq(kvt_outfile_open("", &file, &err), KVT_ERR_INVALID);
    support_write(path, "x", 1);
    ck_assert_int_eq(kvt_outfile_open(support_path(&folder, "out.json/x", other), &file, &err),
                     KVT_ERR_SYSTEM);
    ck_assert_ptr_null(file);
    ck_assert_uint_eq(support_folder_entries(folder.path), 1);
}
END_TEST

START_TEST(a_device_is_never_replaced)
{
    struct kvt_outfile *file = NULL;
    struct kvt_error err;
    ck_assert_int_eq(symlink("/dev/full", path), 0);
    ck_assert_int_eq(kvt_outfile_open(path, &file, &err), KVT_ERR_SYSTEM);
    ck_assert_int_eq(kvt_outfile_open("/dev/null", &file, &err), KVT_ERR_SYSTEM);
    ck_assert_str_eq(err.message, "exists and is not a regular file, so it is not replaced");
}
END_TEST

START_TEST(a_link_goes_on_pointing_to_the_file)
{
    char target[SUPPORT_PATH_BYTES];
    support_write(support_path(&folder, "target", target), TEXT("old"));
    ck_assert_int_eq(symlink("target", path), 0);
    struct kvt_outfile *file = opened(path);
    (void)fputs("new", kvt_outfile_stream(file));
    ck_assert_int_eq(kvt_outfile_commit(file, NULL), KVT_OK);
    check_content(target, "new");
    struct stat info;
    ck_assert_int_eq(lstat(path, &info), 0);
    ck_assert(S_ISLNK(info.st_mode));
}
END_TEST

/* ".../file -> sub/first -> second", and second is not there yet: it comes to be in sub. */
START_TEST(a_link_to_nothing_yet_is_written_through)
{
    char inner[SUPPORT_PATH_BYTES], first[SUPPORT_PATH_BYTES], second[SUPPORT_PATH_BYTES];
    struct stat info;

    ck_assert_int_eq(mkdir(support_path(&folder, "sub", inner), 0777), 0);
    ck_assert_int_eq(symlink("second", support_path(&folder, "sub/first", first)), 0);
    ck_assert_int_eq(symlink("sub/first", path), 0);
    struct kvt_outfile *file = opened(path);
    (void)fputs("new", kvt_outfile_stream(file));
    ck_assert_int_eq(kvt_outfile_commit(file, NULL), KVT_OK);
    check_content(support_path(&folder, "sub/second", second), "new");
    ck_assert_int_eq(lstat(path, &info), 0);
    ck_assert(S_ISLNK(info.st_mode));
    ck_assert_int_eq(lstat(first, &info), 0);
    ck_assert(S_ISLNK(info.st_mode));
}
END_TEST

START_TEST(links_that_never_end_are_no_file)
{
    char other[SUPPORT_PATH_BYTES];
    struct kvt_outfile *file = NULL;
    struct kvt_error err;

    ck_assert_int_eq(symlink(path, support_path(&folder, "other", other)), 0);
    ck_assert_int_eq(symlink(other, path), 0);
    ck_assert_int_eq(kvt_outfile_open(path, &file, &err), KVT_ERR_SYSTEM);
    ck_assert_uint_eq(support_folder_entries(folder.path), 2);
}
END_TEST

START_TEST(a_commit_that_cannot_take_the_name_leaves_no_temporary)
{
    struct kvt_outfile *file = opened(path);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    struct kvt_error err;
    ck_assert_int_eq(kvt_outfile_commit(file, &err), KVT_ERR_SYSTEM);
    ck_assert_uint_eq(support_folder_entries(folder.path), 1);
}
END_TEST

START_TEST(writing_with_short_memory_leaves_nothing_behind)
{
    for (uint64_t nth = 0;; nth++) {
        struct kvt_outfile *file = NULL;
        support_fail_allocation(nth);
        kvt_status status = kvt_outfile_open(path, &file, NULL);
        bool has_failed = support_allocation_failed();
        if (status == KVT_OK)
            kvt_outfile_discard(file);
        ck_assert(status == KVT_OK || (status == KVT_ERR_NOMEM && has_failed));
        ck_assert_uint_eq(support_folder_entries(folder.path), 0);
        if (!has_failed)
            break;
    }
}
END_TEST

START_TEST(folders_are_made_down_to_the_last)
{
    char deep[SUPPORT_PATH_BYTES];
    struct stat info;
    support_path(&folder, "a//b/c/", deep);
    ck_assert_int_eq(kvt_mkdirs(deep, NULL), KVT_OK);
    ck_assert_int_eq(stat(deep, &info), 0);
    ck_assert(S_ISDIR(info.st_mode));
    ck_assert_int_eq(kvt_mkdirs(deep, NULL), KVT_OK);
    ck_assert_int_eq(kvt_mkdirs("/", NULL), KVT_OK);
    ck_assert_int_eq(kvt_mkdirs(".", NULL), KVT_OK);
}
END_TEST

START_TEST(folders_that_cannot_be_finished_are_taken_back)
{
    char deep[2048];
    char file[SUPPORT_PATH_BYTES];
    struct kvt_error err;
    support_write(support_path(&folder, "file", file), "x", 1);
    (void)snprintf(deep, sizeof deep, "%s/file/b", folder.path);
    ck_assert_int_eq(kvt_mkdirs(deep, &err), KVT_ERR_SYSTEM);
    ck_assert_str_eq(err.where, file);
    ck_assert_str_eq(err.message, "the folder cannot be made: Not a directory");

    /* A name longer than any file system takes, below two that can be made. */
    int used = snprintf(deep, sizeof deep, "%s/new/newer/", folder.path);
    memset(deep + used, 'n', 300);
    deep[used + 300] = '\0';
    ck_assert_int_eq(kvt_mkdirs(deep, &err), KVT_ERR_SYSTEM);
    ck_assert_uint_eq(support_folder_entries(folder.path), 1);
    ck_assert_int_eq(kvt_mkdirs("", &err), KVT_ERR_INVALID);
}
END_TEST

/* The file's lines, each ended by '|'; or the status's name and the place. */
static const char *lines_of(const char *bytes, size_t byte_count)
{
    static char all[4096];
    support_write(path, bytes, byte_count);
    struct kvt_lines *lines = NULL;
    struct kvt_error err = {0};
    ck_assert_int_eq(kvt_lines_open(path, &lines, &err), KVT_OK);
    all[0] = '\0';
    size_t used = 0;
    uint64_t number = 0;
    for (;;) {
        char *text = NULL;
        size_t text_bytes = 0;
        kvt_status status = kvt_lines_next(lines, &text, &text_bytes, &err);
        if (status != KVT_OK) {
            (void)snprintf(all, sizeof all, "%s%s", kvt_status_name(status),
                           err.where + strlen(path));
            struct kvt_error again = {0};
            ck_assert_int_eq(kvt_lines_next(lines, &text, &text_bytes, &again), status);
            ck_assert_str_eq(again.where, err.where);
            break;
        }
        if (text == NULL)
            break;
        ck_assert_uint_eq(kvt_lines_number(lines), ++number);
        ck_assert_uint_eq(strlen(text), text_bytes);
        used += (size_t)snprintf(all + used, sizeof all - used, "%s|", text);
    }
    kvt_lines_close(lines);
    return all;
}

START_TEST(lines_end_in_lf_crlf_or_with_the_file)
{
    ck_assert_str_eq(lines_of(TEXT("")), "");
    ck_assert_str_eq(lines_of(TEXT("\n")), "|");
    ck_assert_str_eq(lines_of(TEXT("a\nb\n")), "a|b|");
    ck_assert_str_eq(lines_of(TEXT("a\r\n\r\nb")), "a||b|");
    ck_assert_str_eq(lines_of(TEXT("a\n\n")), "a||");
    ck_assert_str_eq(lines_of(TEXT("\xef\xbb\xbf")), "");
    ck_assert_str_eq(lines_of(TEXT("\xef\xbb\xbf"
                                   "a\r\n\xef\xbb\xbf"
                                   "b")),
                     "a|\xef\xbb\xbf"
                     "b|");
}
END_TEST

START_TEST(a_nul_or_a_lone_carriage_return_is_refused_in_its_place)
{
    ck_assert_str_eq(lines_of(TEXT("a\nb\0c\n")), "KVT_ERR_PARSE:2:2");
    ck_assert_str_eq(lines_of(TEXT("\0")), "KVT_ERR_PARSE:1:1");
    ck_assert_str_eq(lines_of(TEXT("a\rb\n")), "KVT_ERR_PARSE:1:2");
    ck_assert_str_eq(lines_of(TEXT("ab\r\r\n")), "KVT_ERR_PARSE:1:3");
    ck_assert_str_eq(lines_of(TEXT("a\n\nb\r")), "KVT_ERR_PARSE:3:2");
}
END_TEST

START_TEST(lines_of_every_length_around_a_buffer_are_whole)
{
    for (size_t length = 65500; length < 65560; length++) {
        support_write_filled(path, 'x', length);
        FILE *file = fopen(path, "ab");
        ck_assert_ptr_nonnull(file);
        (void)fputs("\r\nnext\n", file);
        ck_assert_int_eq(fclose(file), 0);
        struct kvt_lines *lines = NULL;
        ck_assert_int_eq(kvt_lines_open(path, &lines, NULL), KVT_OK);
        char *text = NULL;
        size_t bytes = 0;
        ck_assert_int_eq(kvt_lines_next(lines, &text, &bytes, NULL), KVT_OK);
        ck_assert_uint_eq(bytes, length);
        ck_assert_uint_eq(strspn(text, "x"), length);
        ck_assert_int_eq(kvt_lines_next(lines, &text, &bytes, NULL), KVT_OK);
        ck_assert_str_eq(text, "next");
        kvt_lines_close(lines);
    }
}
END_TEST

START_TEST(sixty_four_mebibytes_are_a_line_and_one_byte_more_is_not)
{
    for (size_t extra = 0; extra < 2; extra++) {
        support_write_filled(path, 'x', LINE_BYTES_MAX + extra);
        if (extra == 0) {
            FILE *file = fopen(path, "ab");
            ck_assert_ptr_nonnull(file);
            (void)fputs("\r\n", file);
            ck_assert_int_eq(fclose(file), 0);
        }
        struct kvt_lines *lines = NULL;
        struct kvt_error err;
        ck_assert_int_eq(kvt_lines_open(path, &lines, NULL), KVT_OK);
        char *text = NULL;
        size_t bytes = 0;
        kvt_status status = kvt_lines_next(lines, &text, &bytes, &err);
        ck_assert_int_eq(status, extra == 0 ? KVT_OK : KVT_ERR_PARSE);
        ck_assert_uint_eq(bytes, extra == 0 ? LINE_BYTES_MAX : 0);
        kvt_lines_close(lines);
    }
}
END_TEST

START_TEST(a_line_without_end_is_refused_in_bounded_memory)
{
    struct kvt_lines *lines = NULL;
    struct kvt_error err;
    support_write(path, "x", 1);
    ck_assert_int_eq(truncate(path, INT64_C(1) << 40), 0); /* a hole: a terabyte of nothing */
    ck_assert_int_eq(kvt_lines_open(path, &lines, &err), KVT_OK);
    char *text = NULL;
    size_t bytes = 0;
    ck_assert_int_eq(kvt_lines_next(lines, &text, &bytes, &err), KVT_ERR_PARSE);
    char where[SUPPORT_PATH_BYTES + 16];
    (void)snprintf(where, sizeof where, "%s:1:67108865", path);
    ck_assert_str_eq(err.where, where);
    ck_assert_str_eq(err.message, "a line longer than the 64 MiB that are read");
    kvt_lines_close(lines);
}
END_TEST

START_TEST(lines_of_what_cannot_be_read_are_refused)
{
    struct kvt_lines *lines = NULL;
    ck_assert_int_eq(kvt_lines_open(path, &lines, NULL), KVT_ERR_NOT_FOUND);
    ck_assert_int_eq(kvt_lines_open(folder.path, &lines, NULL), KVT_ERR_IO);
    support_write(path, "a\n", 2);
    ck_assert_ptr_null(lines);
    for (uint64_t nth = 0;; nth++) {
        support_fail_allocation(nth);
        kvt_status status = kvt_lines_open(path, &lines, NULL);
        bool has_failed = support_allocation_failed();
        ck_assert_int_eq(status, has_failed ? KVT_ERR_NOMEM : KVT_OK);
        ck_assert_int_eq(lines == NULL, has_failed);
        kvt_lines_close(lines);
        if (!has_failed)
            break;
    }
    kvt_lines_close(NULL);
}
END_TEST

static const struct {
    const char *text;
    kvt_status status;
    uint64_t value;
} counts[] = {
    {"0", KVT_OK, 0},
    {"133", KVT_OK, 133},
    {"007", KVT_OK, 7},
    {"133.0", KVT_OK, 133},
    {"1e3", KVT_OK, 1000},
    {"1.5e1", KVT_OK, 15},
    {"1200e-2", KVT_OK, 12},
    {"0.000e99999999999999999999", KVT_OK, 0},
    {"9007199254740993", KVT_OK, UINT64_C(9007199254740993)}, /* past a double's 2^53 */
    {"9223372036854775808", KVT_OK, UINT64_C(9223372036854775808)},
    {"18446744073709551615", KVT_OK, UINT64_MAX},
    {"18446744073709551616", KVT_ERR_INVALID, 0},
    {"1e20", KVT_ERR_INVALID, 0},
    {"1e999", KVT_ERR_INVALID, 0},
    {"1e99999999999999999999", KVT_ERR_INVALID, 0},
    {"13.7", KVT_ERR_PARSE, 0},
    {"1e-1", KVT_ERR_PARSE, 0},
    {"1e-99999999999999999999", KVT_ERR_PARSE, 0},
    {"-1", KVT_ERR_PARSE, 0},
    {"-0", KVT_ERR_PARSE, 0},
    {"+1", KVT_ERR_PARSE, 0},
    {"", KVT_ERR_PARSE, 0},
    {" 1", KVT_ERR_PARSE, 0},
    {"1 ", KVT_ERR_PARSE, 0},
    {"1,000", KVT_ERR_PARSE, 0},
    {"1_000", KVT_ERR_PARSE, 0},
    {"0x10", KVT_ERR_PARSE, 0},
    {"1.", KVT_ERR_PARSE, 0},
    {".5", KVT_ERR_PARSE, 0},
    {"1e", KVT_ERR_PARSE, 0},
    {"nan", KVT_ERR_PARSE, 0},
    {"inf", KVT_ERR_PARSE, 0},
    {"null", KVT_ERR_PARSE, 0},
    {"12a", KVT_ERR_PARSE, 0},
    {"1111111111222222222233333333334444444444555555555566666666667777", KVT_ERR_PARSE, 0},
};

START_TEST(text_is_a_count_when_it_is_whole_and_decimal)
{
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint64_t value = 999;
        struct kvt_error err = {0};
        kvt_status status = kvt_text_count(counts[i].text, "t.csv:17:3", UINT64_MAX, &value, &err);
        ck_assert_msg(status == counts[i].status, "\"%s\": %s", counts[i].text, err.message);
        ck_assert_uint_eq(value, status == KVT_OK ? counts[i].value : 999);
        ck_assert_str_eq(err.where, status == KVT_OK ? "" : "t.csv:17:3");
    }
}
END_TEST

START_TEST(a_count_s_limit_holds_and_is_named)
{
    uint64_t value = 5;
    struct kvt_error err;
    ck_assert_int_eq(kvt_text_count("100", "w", 100, &value, &err), KVT_OK);
    ck_assert_int_eq(kvt_text_count("101", "w", 100, &value, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.message, "101 is too large; at most 100 is taken");
    ck_assert_uint_eq(value, 100);
    ck_assert_int_eq(kvt_text_count("13.7", "w", 100, &value, &err), KVT_ERR_PARSE);
    ck_assert_str_eq(err.message, "\"13.7\" is not a whole number in decimal, without a sign");
    ck_assert_int_eq(kvt_text_count("", "w", 100, &value, &err), KVT_ERR_PARSE);
    ck_assert_str_eq(err.message, "empty; expected a whole number in decimal, without a sign");
}
END_TEST

START_TEST(text_is_a_real_number_when_it_is_decimal_finite_and_in_range)
{
    static const struct {
        const char *text;
        kvt_status status;
        double value;
    } rows[] = {
        {"2.385", KVT_OK, 2.385},
        {"-2.385", KVT_OK, -2.385},
        {"0", KVT_OK, 0.0},
        {"1e3", KVT_OK, 1000.0},
        {"00.5", KVT_OK, 0.5},
        {"1e-999", KVT_OK, 0.0},
        {"1e999", KVT_ERR_INVALID, 0.0},
        {"-1e999", KVT_ERR_INVALID, 0.0},
        {"NaN", KVT_ERR_PARSE, 0.0},
        {"inf", KVT_ERR_PARSE, 0.0},
        {"-inf", KVT_ERR_PARSE, 0.0},
        {"+1", KVT_ERR_PARSE, 0.0},
        {"--1", KVT_ERR_PARSE, 0.0},
        {"-", KVT_ERR_PARSE, 0.0},
        {"0x1p3", KVT_ERR_PARSE, 0.0},
        {"1,5", KVT_ERR_PARSE, 0.0},
        {"1.5 ", KVT_ERR_PARSE, 0.0},
        {"", KVT_ERR_PARSE, 0.0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double value = 999.0;
        kvt_status status = kvt_text_real(rows[i].text, "w", -INFINITY, INFINITY, &value, NULL);
        ck_assert_msg(status == rows[i].status, "\"%s\"", rows[i].text);
        ck_assert_double_eq(value, status == KVT_OK ? rows[i].value : 999.0);
    }
    double value = 0.0;
    struct kvt_error err;
    ck_assert_int_eq(kvt_text_real("-0.1", "w", 0.0, INFINITY, &value, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.message, "-0.1 is out of range, expected 0 to inf");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("file");
    TCase *cases = tcase_create("wholeness");
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    tcase_set_timeout(cases, 30);
    tcase_add_test(cases, a_file_is_read_as_it_is);
    tcase_add_test(cases, a_file_past_the_limit_is_refused_before_it_is_read);
    tcase_add_test(cases, what_says_no_size_is_read_to_its_end_or_the_limit);
    tcase_add_test(cases, what_is_no_ordinary_file_is_refused_and_not_waited_for);
    tcase_add_test(cases, two_names_of_one_file_are_the_same);
    tcase_add_test(cases, what_cannot_be_read_says_so);
    tcase_add_test(cases, reading_with_short_memory_leaks_nothing);
    tcase_add_test(cases, a_file_appears_when_it_is_committed_and_not_before);
    tcase_add_test(cases, an_older_file_stays_until_the_commit_and_after_a_discard);
    tcase_add_test(cases, two_writers_of_one_file_do_not_mix);
    tcase_add_test(cases, the_new_file_s_mode_is_what_the_umask_leaves);
    tcase_add_test(cases, a_disk_that_is_full_is_reported_and_nothing_remains);
    tcase_add_test(cases, a_place_that_cannot_be_written_is_refused_at_once);
    tcase_add_test(cases, a_device_is_never_replaced);
    tcase_add_test(cases, a_link_goes_on_pointing_to_the_file);
    tcase_add_test(cases, a_link_to_nothing_yet_is_written_through);
    tcase_add_test(cases, links_that_never_end_are_no_file);
    tcase_add_test(cases, a_commit_that_cannot_take_the_name_leaves_no_temporary);
    tcase_add_test(cases, writing_with_short_memory_leaves_nothing_behind);
    tcase_add_test(cases, folders_are_made_down_to_the_last);
    tcase_add_test(cases, folders_that_cannot_be_finished_are_taken_back);
    tcase_add_test(cases, lines_end_in_lf_crlf_or_with_the_file);
    tcase_add_test(cases, a_nul_or_a_lone_carriage_return_is_refused_in_its_place);
    tcase_add_test(cases, lines_of_every_length_around_a_buffer_are_whole);
    tcase_add_test(cases, sixty_four_mebibytes_are_a_line_and_one_byte_more_is_not);
    tcase_add_test(cases, a_line_without_end_is_refused_in_bounded_memory);
    tcase_add_test(cases, lines_of_what_cannot_be_read_are_refused);
    tcase_add_test(cases, text_is_a_count_when_it_is_whole_and_decimal);
    tcase_add_test(cases, a_count_s_limit_holds_and_is_named);
    tcase_add_test(cases, text_is_a_real_number_when_it_is_decimal_finite_and_in_range);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
