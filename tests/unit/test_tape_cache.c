/* test_tape_cache.c -- tapes from the cache are those that would be recorded, whatever befell it.
 */
#define _GNU_SOURCE 1 /* flock() */

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../models/law/tape_cache.h"
#include "support/law_setting.h"
#include "support/support.h"

extern const struct kvt_law kvt_law_tape;

static struct support_folder folder;
static char tapes[SUPPORT_PATH_BYTES];

static void folder_make(void)
{
    support_folder_make(&folder);
    (void)support_path(&folder, "tapes", tapes);
}

static void folder_remove(void)
{
    support_folder_remove(&folder);
}

enum {
    TOP_K = 40,
    TAPES = 3,
    PREPARED_ROWS = 1500,
};

/* What two streams select, one of a length that is prepared for; text says what stands behind
 * them. */
static uint64_t run_hash(const char *cache_dir, uint64_t seed, uint32_t side_tokens, uint32_t reads,
                         char text[256])
{
    static const uint32_t contexts[] = {PREPARED_ROWS};
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, TOP_K);
    law_setting_set(&setting, &kvt_law_tape, "tapes", TAPES);
    setting.env.cache_dir = cache_dir;
    setting.env.run_seed = seed;
    setting.env.side_paths = side_tokens > 0;
    setting.env.side_tokens = side_tokens;
    setting.env.context_rows = contexts;
    setting.env.context_count = 1;
    setting.env.output_tokens = 300;
    setting.env.threads = 2;
    void *data = law_prepared(&kvt_law_tape, &setting);
    struct kvt_law_stream_env ahead = law_stream_env(1, 0, PREPARED_ROWS, PREPARED_ROWS + reads);
    struct kvt_law_stream_env other = law_stream_env(2, 1, 700, 700 + reads);
    uint64_t hash = law_whole_hash(&kvt_law_tape, data, &ahead) +
                    3 * law_whole_hash(&kvt_law_tape, data, &other);
    if (text != NULL)
        kvt_law_tape.describe(data, text, 256);
    kvt_law_tape.free(data);
    return hash;
}

/* Calls `visit` for each file; returns how many end so. */
static size_t for_each_file(const char *ending, void (*visit)(const char *path))
{
    DIR *dir = opendir(tapes);
    size_t count = 0;
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        const char *found = strrchr(entry->d_name, '.');
        if (found == NULL || strcmp(found, ending) != 0)
            continue;
        char path[2 * SUPPORT_PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s/%s", tapes, entry->d_name);
        if (visit != NULL)
            visit(path);
        count++;
    }
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

static uint64_t all_bytes;

static void add_bytes(const char *path)
{
    struct stat info;
    ck_assert_int_eq(stat(path, &info), 0);
    all_bytes += (uint64_t)info.st_size;
}

static uint64_t cached_bytes(void)
{
    all_bytes = 0;
    (void)for_each_file(".kvsel", add_bytes);
    return all_bytes;
}

START_TEST(a_cache_changes_nothing_but_the_time)
{
    char plain[256], first[256], second[256];
    uint64_t expected = run_hash(NULL, 5, 3, 50, plain);
    ck_assert_uint_eq(run_hash(folder.path, 5, 3, 50, first), expected);
    /* Three tapes of the prepared length and one of the other; no lock is left. */
    ck_assert_uint_eq(for_each_file(".kvsel", NULL), TAPES + 1);
    ck_assert_uint_eq(support_folder_entries(tapes), TAPES + 1);
    uint64_t bytes = cached_bytes();
    ck_assert_uint_eq(run_hash(folder.path, 5, 3, 50, second), expected);
    ck_assert_uint_eq(cached_bytes(), bytes);
    ck_assert_str_eq(first, plain);
    ck_assert_str_eq(second, plain);
}
END_TEST

START_TEST(whatever_decides_what_a_tape_holds_decides_its_name)
{
    (void)run_hash(folder.path, 5, 0, 50, NULL);
    ck_assert_uint_eq(for_each_file(".kvsel", NULL), TAPES + 1);
    uint64_t expected = run_hash(NULL, 6, 0, 50, NULL);
    ck_assert_uint_eq(run_hash(folder.path, 6, 0, 50, NULL), expected);
    ck_assert_uint_eq(for_each_file(".kvsel", NULL), 2 * (TAPES + 1));
    expected = run_hash(NULL, 5, 2, 50, NULL);
    ck_assert_uint_eq(run_hash(folder.path, 5, 2, 50, NULL), expected);
    ck_assert_uint_eq(for_each_file(".kvsel", NULL), 3 * (TAPES + 1));
}
END_TEST

START_TEST(a_tape_grows_in_the_cache_as_runs_read_on)
{
    char plain[256], cached[256];
    uint64_t brief = run_hash(folder.path, 5, 1, 20, NULL);
    uint64_t bytes = cached_bytes();
    uint64_t expected = run_hash(NULL, 5, 1, 250, plain);
    ck_assert_uint_eq(run_hash(folder.path, 5, 1, 250, cached), expected);
    ck_assert_str_eq(cached, plain);
    ck_assert_uint_gt(cached_bytes(), bytes);
    bytes = cached_bytes();
    (void)run_hash(NULL, 5, 1, 20, plain);
    ck_assert_uint_eq(run_hash(folder.path, 5, 1, 20, cached), brief);
    ck_assert_str_eq(cached, plain);
    ck_assert_uint_eq(cached_bytes(), bytes);
}
END_TEST

/* ---- Damage -------------------------------------------------------------------------------- */

static void cut(const char *path)
{
    struct stat info;
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_int_eq(truncate(path, info.st_size / 2), 0);
}

static void flip(const char *path)
{
    size_t count = 0;
    char *bytes = support_read(path, &count);
    bytes[count / 2] = (char)(bytes[count / 2] ^ 4);
    support_write(path, bytes, count);
    free(bytes);
}

static void empty(const char *path)
{
    support_write(path, "", 0);
}

static void replace_by_text(const char *path)
{
    support_write(path, "tape", 4);
}

static void replace_by_folder(const char *path)
{
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0777), 0);
}

static char kept_path[2 * SUPPORT_PATH_BYTES];

/* The tape under another's name: a whole file, of something else. */
static void swap_with_last(const char *path)
{
    if (kept_path[0] != '\0') {
        size_t count = 0;
        char *bytes = support_read(kept_path, &count);
        support_write(path, bytes, count);
        free(bytes);
    }
    (void)snprintf(kept_path, sizeof kept_path, "%s", path);
}

static void (*const damages[])(const char *) = {
    cut, flip, empty, replace_by_text, replace_by_folder, swap_with_last};

START_TEST(damaged_and_foreign_files_are_recorded_anew)
{
    uint64_t expected = run_hash(folder.path, 5, 1, 50, NULL);
    uint64_t bytes = cached_bytes();
    kept_path[0] = '\0';
    (void)for_each_file(".kvsel", damages[_i]);
    ck_assert_uint_eq(run_hash(folder.path, 5, 1, 50, NULL), expected);
    if (damages[_i] != replace_by_folder)
        ck_assert_uint_eq(cached_bytes(), bytes);
    ck_assert_uint_eq(run_hash(folder.path, 5, 1, 50, NULL), expected);
}
END_TEST

START_TEST(a_folder_that_cannot_be_written_costs_only_the_cache)
{
    uint64_t expected = run_hash(NULL, 5, 0, 50, NULL);
    support_write(tapes, "", 0); /* a file where the folder should be */
    ck_assert_uint_eq(run_hash(folder.path, 5, 0, 50, NULL), expected);
    ck_assert_uint_eq(run_hash("/proc/none", 5, 0, 50, NULL), expected);
    ck_assert_uint_eq(run_hash("/dev/null/x", 5, 0, 50, NULL), expected);
}
END_TEST

/* ---- Locks and size ---------------------------------------------------------------------------
 */

static const struct kvt_kvsel_shape shape = {
    .top_k = TOP_K, .first_rows = 400, .tokens_per_row = 1};

struct stand {
    struct reel_process process;
    struct tape_cache cache;
};

static void stand_init(struct stand *stand)
{
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, TOP_K);
    ck_assert_int_eq(
        score_shape_init(&stand->process.shape, &setting.env.params, TOP_K, "test", NULL), KVT_OK);
    stand->process.gauss = score_gauss_new();
    tape_cache_init(&stand->cache, folder.path, &stand->process);
}

static void stand_fini(struct stand *stand)
{
    tape_cache_fini(&stand->cache);
    free((float *)stand->process.gauss);
}

static struct reel *numbered_reel(uint64_t number)
{
    struct score_kin kin = {.keys = {number}, .is_alone = 1};
    struct reel *reel = reel_new(&kin, &shape, 128);
    ck_assert_ptr_nonnull(reel);
    return reel;
}

START_TEST(a_tape_is_recorded_by_one_at_a_time)
{
    struct stand stand;
    stand_init(&stand);
    struct reel *one = numbered_reel(1), *same = numbered_reel(1), *other = numbered_reel(2);
    int lock = tape_cache_lock(&stand.cache, one);
    ck_assert_int_ge(lock, 0);
    ck_assert_int_eq(tape_cache_lock(&stand.cache, same), TAPE_LOCK_BUSY);
    int second = tape_cache_lock(&stand.cache, other);
    ck_assert_int_ge(second, 0);
    tape_cache_unlock(&stand.cache, other, second);
    tape_cache_unlock(&stand.cache, one, lock);
    lock = tape_cache_lock(&stand.cache, same);
    ck_assert_int_ge(lock, 0);
    tape_cache_unlock(&stand.cache, same, lock);
    ck_assert_uint_eq(support_folder_entries(tapes), 0);
    reel_free(one);
    reel_free(same);
    reel_free(other);
    stand_fini(&stand);
}
END_TEST

/* Locks every tape that a run asks for, and lets go after a while. */
static void *hold_locks(void *unused)
{
    (void)unused;
    struct timespec pause = {.tv_nsec = 150 * 1000 * 1000};
    int held[16];
    size_t count = 0;
    DIR *dir = opendir(tapes);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL && count < 16) {
        char *dot = strrchr(entry->d_name, '.');
        if (dot == NULL || strcmp(dot, ".kvsel") != 0)
            continue;
        char path[2 * SUPPORT_PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s/%.16s.lock", tapes, entry->d_name);
        held[count] = open(path, O_RDWR | O_CREAT, 0666);
        if (held[count] >= 0 && flock(held[count], LOCK_EX | LOCK_NB) == 0)
            count++;
    }
    if (dir != NULL)
        (void)closedir(dir);
    (void)nanosleep(&pause, NULL);
    while (count > 0)
        (void)close(held[--count]);
    return NULL;
}

START_TEST(a_run_waits_for_another_that_records_its_tapes)
{
    uint64_t expected = run_hash(folder.path, 5, 0, 50, NULL);
    pthread_t other;
    ck_assert_int_eq(pthread_create(&other, NULL, hold_locks, NULL), 0);
    struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    (void)nanosleep(&pause, NULL);
    ck_assert_uint_eq(run_hash(folder.path, 5, 0, 50, NULL), expected);
    (void)pthread_join(other, NULL);
}
END_TEST

/* How often the folder itself was opened since the watch began; opened files have names. */
static size_t times_listed(int watch)
{
    _Alignas(struct inotify_event) char events[1 << 14];
    ssize_t bytes;
    size_t count = 0;

    while ((bytes = read(watch, events, sizeof events)) > 0) {
        for (char *at = events; at < events + bytes;) {
            const struct inotify_event *event = (const void *)at;
            count += event->len == 0;
            at += sizeof *event + event->len;
        }
    }
    return count;
}

START_TEST(a_run_that_keeps_nothing_new_does_not_go_through_the_folder)
{
    (void)run_hash(folder.path, 5, 3, 50, NULL);
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    ck_assert_int_ge(watch, 0);
    ck_assert_int_ge(inotify_add_watch(watch, tapes, IN_OPEN), 0);
    (void)run_hash(folder.path, 5, 3, 50, NULL);
    ck_assert_uint_eq(times_listed(watch), 0);
    (void)run_hash(folder.path, 6, 3, 50, NULL); /* others, which are kept */
    ck_assert_uint_eq(times_listed(watch), 1);
    (void)close(watch);
}
END_TEST

START_TEST(the_oldest_files_go_when_there_are_too_many)
{
    struct stand stand;
    stand_init(&stand);
    enum {
        REELS = 5
    };
    struct reel *reels[REELS];
    for (size_t r = 0; r < REELS; r++) {
        reels[r] = numbered_reel(r);
        ck_assert_int_eq(reel_record(reels[r], &stand.process, 128, NULL), KVT_OK);
        tape_cache_store(&stand.cache, reels[r]);
        ck_assert_uint_eq(reels[r]->stored, 128);
        struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
        (void)nanosleep(&pause, NULL);
    }
    char foreign[SUPPORT_PATH_BYTES];
    (void)support_path(&folder, "tapes/notes.txt", foreign);
    support_write_filled(foreign, 'x', 1 << 20);
    tape_cache_trim(&stand.cache); /* far below its limit */
    ck_assert_uint_eq(for_each_file(".kvsel", NULL), REELS);

    /* The first was of use again: the second and third are the oldest. */
    struct reel *again = numbered_reel(0);
    tape_cache_load(&stand.cache, again);
    ck_assert_uint_eq(again->recorded, 128);
    stand.cache.bytes_max = cached_bytes() * 7 / 10;
    tape_cache_trim(&stand.cache);
    ck_assert_uint_eq(for_each_file(".kvsel", NULL), 3);
    for (size_t r = 0; r < REELS; r++) {
        struct reel *reel = numbered_reel(r);
        tape_cache_load(&stand.cache, reel);
        ck_assert_uint_eq(reel->recorded, r == 1 || r == 2 ? 0 : 128);
        reel_free(reel);
        reel_free(reels[r]);
    }
    size_t count = 0;
    free(support_read(foreign, &count));
    ck_assert_uint_eq(count, 1 << 20);
    reel_free(again);
    stand_fini(&stand);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tape_cache");
    TCase *cache = tcase_create("cache");
    tcase_set_timeout(cache, 60);
    tcase_add_checked_fixture(cache, folder_make, folder_remove);
    tcase_add_test(cache, a_cache_changes_nothing_but_the_time);
    tcase_add_test(cache, whatever_decides_what_a_tape_holds_decides_its_name);
    tcase_add_test(cache, a_tape_grows_in_the_cache_as_runs_read_on);
    tcase_add_loop_test(cache, damaged_and_foreign_files_are_recorded_anew, 0,
                        sizeof damages / sizeof damages[0]);
    tcase_add_test(cache, a_folder_that_cannot_be_written_costs_only_the_cache);
    tcase_add_test(cache, a_tape_is_recorded_by_one_at_a_time);
    tcase_add_test(cache, a_run_waits_for_another_that_records_its_tapes);
    tcase_add_test(cache, a_run_that_keeps_nothing_new_does_not_go_through_the_folder);
    tcase_add_test(cache, the_oldest_files_go_when_there_are_too_many);
    suite_add_tcase(suite, cache);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
