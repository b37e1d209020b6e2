/* test_hash.c -- hashes that stay what they are. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"

START_TEST(the_mix_is_splitmix64_s)
{
    /* The published generator's first outputs from seed 1234567: it adds the
     * golden ratio, then mixes. */
    static const uint64_t expected[5] = {
        UINT64_C(6457827717110365317),  UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),  UINT64_C(4593380528125082431),
        UINT64_C(16408922859458223821),
    };
    uint64_t state = 1234567;
    for (int i = 0; i < 5; i++) {
        state += UINT64_C(0x9e3779b97f4a7c15);
        ck_assert_uint_eq(kvt_mix64(state), expected[i]);
    }
}
END_TEST

START_TEST(bytes_hash_to_the_same_value_on_every_machine)
{
    /* From a second implementation, in Python. */
    ck_assert_uint_eq(kvt_hash_bytes(0, "", 0), UINT64_C(0x5692161d100b05e5));
    ck_assert_uint_eq(kvt_hash_bytes(0, "kvtide", 6), UINT64_C(0x66a769ad7fafd16));
    ck_assert_uint_eq(kvt_hash_bytes(7, "0123456789abcdef\xff", 17), UINT64_C(0x691f46b808b023c5));
}
END_TEST

START_TEST(order_length_and_start_of_the_chain_matter)
{
    ck_assert_uint_ne(kvt_chain64(kvt_chain64(0, 1), 2), kvt_chain64(kvt_chain64(0, 2), 1));
    ck_assert_uint_ne(kvt_hash_bytes(0, "a", 1), kvt_hash_bytes(0, "a\0", 2));
    ck_assert_uint_ne(kvt_hash_bytes(0, "ab", 2), kvt_hash_bytes(0, "ba", 2));
    ck_assert_uint_ne(kvt_hash_bytes(0, "ab", 2), kvt_hash_bytes(1, "ab", 2));
}
END_TEST

START_TEST(where_the_bytes_stand_in_memory_does_not_matter)
{
    static const char text[] = "a text of thirty-one characters";
    char moved[64];
    for (size_t shift = 0; shift < 9; shift++) {
        memcpy(moved + shift, text, sizeof text);
        ck_assert_uint_eq(kvt_hash_bytes(0, moved + shift, 31), kvt_hash_bytes(0, text, 31));
    }
}
END_TEST

START_TEST(each_bit_of_the_input_turns_half_of_the_output)
{
    for (size_t bit = 0; bit < 64; bit++) {
        int turned = 0;
        for (uint64_t value = 0; value < 256; value++) {
            uint64_t other = value ^ (UINT64_C(1) << bit);
            turned += __builtin_popcountll(kvt_chain64(0, value) ^ kvt_chain64(0, other));
        }
        /* 16,384 fair coins: six standard deviations are 384. */
        ck_assert_int_gt(turned, 8192 - 384);
        ck_assert_int_lt(turned, 8192 + 384);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hash");
    TCase *values = tcase_create("values");
    tcase_add_test(values, the_mix_is_splitmix64_s);
    tcase_add_test(values, bytes_hash_to_the_same_value_on_every_machine);
    tcase_add_test(values, order_length_and_start_of_the_chain_matter);
    tcase_add_test(values, where_the_bytes_stand_in_memory_does_not_matter);
    tcase_add_test(values, each_bit_of_the_input_turns_half_of_the_output);
    suite_add_tcase(suite, values);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
