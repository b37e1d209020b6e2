/* test_machine.c -- what speaks against a machine is said; what is not known speaks against
 * nothing. */
#include <stdlib.h>
#include <string.h>

#include <check.h>
#include <cjson/cJSON.h>

#include "kvt/json.h"
#include "kvt/machine.h"

/* An H200 with nothing wrong. */
static struct kvt_machine sound(void)
{
    struct kvt_machine machine = {.driver = "580.159.04",
                                  .cuda_driver = "13.0",
                                  .cuda_runtime = "13.0",
                                  .cpu = "a processor",
                                  .kernel = "Linux 6.1",
                                  .cpus = 16,
                                  .numa_nodes = 1,
                                  .memory_bytes = UINT64_C(131981020) * 1024,
                                  .memory_available_bytes = UINT64_C(131089952) * 1024,
                                  .memory_limit_bytes = UINT64_MAX,
                                  .memory_used_bytes = UINT64_MAX,
                                  .locked_limit_bytes = UINT64_MAX,
                                  .gpu_count = 2};
    for (uint32_t i = 0; i < machine.gpu_count; i++)
        machine.gpus[i] = (struct kvt_machine_gpu){.name = "NVIDIA H200",
                                                   .pci = "0000:00:06.0",
                                                   .capability_major = 9,
                                                   .multiprocessors = 132,
                                                   .memory_bytes = UINT64_C(150109880320),
                                                   .link_generation = 5,
                                                   .link_width = 16,
                                                   .link_generation_max = 5,
                                                   .link_width_max = 16,
                                                   .h2d_bytes_per_s = 55.4e9,
                                                   .d2h_bytes_per_s = 55.3e9,
                                                   .numa_node = KVT_MACHINE_UNKNOWN,
                                                   .sm_mhz = 1980,
                                                   .sm_mhz_max = 1980,
                                                   .slowdown = 0,
                                                   .power_limit_w = 700,
                                                   .power_default_w = 700,
                                                   .is_ecc = 1};
    return machine;
}

/* One change to the second GPU or to the host, and the word that must come of it. */
struct change {
    const char *word;
    bool is_fault;
    void (*apply)(struct kvt_machine *machine);
};

static void narrow_link(struct kvt_machine *machine)
{
    machine->gpus[1].link_width = 8;
}
static void slow_link(struct kvt_machine *machine)
{
    machine->gpus[1].link_generation = 4;
}
static void split(struct kvt_machine *machine)
{
    machine->gpus[1].is_mig = 1;
}
static void failing(struct kvt_machine *machine)
{
    machine->gpus[1].ecc_uncorrected = 3;
}
static void shared(struct kvt_machine *machine)
{
    machine->gpus[1].other_processes = 2;
}
static void hot(struct kvt_machine *machine)
{
    machine->gpus[1].slowdown = 0x40;
}
static void capped(struct kvt_machine *machine)
{
    machine->gpus[1].power_limit_w = 500;
}
static void unprotected(struct kvt_machine *machine)
{
    machine->gpus[1].is_ecc = 0;
}
static void older(struct kvt_machine *machine)
{
    machine->gpus[1].capability_major = 8;
}
static void silent_link(struct kvt_machine *machine)
{
    machine->gpus[1].link_generation = KVT_MACHINE_UNKNOWN;
}
static void virtual(struct kvt_machine *machine)
{
    machine->is_virtual = true;
}
static void limited(struct kvt_machine *machine)
{
    machine->memory_limit_bytes = UINT64_C(64) << 30;
}

static const struct change changes[] = {
    {"GPU 1: the link is PCIe 5 x8 under load, and could be PCIe 5 x16", true, narrow_link},
    {"GPU 1: the link is PCIe 4 x16 under load", true, slow_link},
    {"GPU 1: MIG is on", true, split},
    {"GPU 1: 3 memory errors", true, failing},
    {"GPU 1: 2 other processes compute on it", true, shared},
    {"GPU 1: clocks are held down", true, hot},
    {"GPU 1: power is capped at 500 of 700 W", false, capped},
    {"GPU 1: ECC is off", false, unprotected},
    {"GPU 1: compute capability 8.0", false, older},
    {"GPU 1: the driver does not say what its link is", false, silent_link},
    {"a virtual machine", false, virtual},
    {"the control group allows 64.0 of 125.9 GiB", false, limited},
};
enum {
    CHANGES = sizeof changes / sizeof changes[0]
};

START_TEST(a_sound_machine_is_fit_and_nothing_is_said)
{
    struct kvt_machine machine = sound();
    struct kvt_machine_finding findings[KVT_MACHINE_FINDINGS_MAX];
    ck_assert_uint_eq(kvt_machine_findings(&machine, findings), 0);
    for (uint32_t i = 0; i < machine.gpu_count; i++) {
        machine.gpus[i].slowdown = 0x4; /* a power cap: clocks follow it, as they should */
        machine.gpus[i].is_mig = KVT_MACHINE_UNKNOWN;
        machine.gpus[i].ecc_uncorrected = KVT_MACHINE_UNKNOWN;
        machine.gpus[i].other_processes = KVT_MACHINE_UNKNOWN;
        machine.gpus[i].power_limit_w = KVT_MACHINE_UNKNOWN;
    }
    ck_assert_uint_eq(kvt_machine_findings(&machine, findings), 0);
}
END_TEST

START_TEST(each_flaw_is_one_finding_of_its_kind)
{
    const struct change *change = &changes[_i];
    struct kvt_machine machine = sound();
    struct kvt_machine_finding findings[KVT_MACHINE_FINDINGS_MAX];
    change->apply(&machine);
    ck_assert_uint_eq(kvt_machine_findings(&machine, findings), 1);
    ck_assert_msg(strstr(findings[0].text, change->word) != NULL, "%s", findings[0].text);
    ck_assert_int_eq(findings[0].is_fault, change->is_fault);
}
END_TEST

START_TEST(faults_come_first_and_make_the_answer_no)
{
    struct kvt_machine machine = sound();
    struct kvt_machine_finding findings[KVT_MACHINE_FINDINGS_MAX];
    size_t count = 0;
    bool remarked = false;
    for (size_t i = 0; i < CHANGES; i++)
        if (changes[i].apply != slow_link && changes[i].apply != silent_link)
            changes[i].apply(&machine);
    count = kvt_machine_findings(&machine, findings);
    ck_assert_uint_eq(count, CHANGES - 2);
    for (size_t i = 0; i < count; i++) {
        remarked = remarked || !findings[i].is_fault;
        ck_assert(!remarked || !findings[i].is_fault);
    }
    cJSON *tree = kvt_machine_tree(&machine);
    ck_assert_ptr_nonnull(tree);
    ck_assert(cJSON_IsFalse(kvt_json_find(tree, "fit")));
    ck_assert_int_eq(cJSON_GetArraySize(kvt_json_find(tree, "faults")), 5);
    cJSON_Delete(tree);
}
END_TEST

START_TEST(what_is_not_known_is_null)
{
    struct kvt_machine machine = sound();
    cJSON *tree = kvt_machine_tree(&machine);
    ck_assert_ptr_nonnull(tree);
    const cJSON *gpus = kvt_json_find(tree, "gpus");
    ck_assert_int_eq(cJSON_GetArraySize(gpus), 2);
    const cJSON *gpu = cJSON_GetArrayItem(gpus, 1);
    ck_assert(cJSON_IsNull(kvt_json_find(gpu, "numa_node")));
    ck_assert(cJSON_IsNull(kvt_json_find(tree, "memory_limit_bytes")));
    ck_assert_double_eq(kvt_json_find(gpu, "h2d_bytes_per_s")->valuedouble, 55.4e9);
    ck_assert(cJSON_IsTrue(kvt_json_find(gpu, "ecc")));
    ck_assert(cJSON_IsTrue(kvt_json_find(tree, "fit")));
    cJSON_Delete(tree);
}
END_TEST

static Suite *machine_suite(void)
{
    Suite *suite = suite_create("machine");
    TCase *tcase = tcase_create("machine");
    tcase_add_test(tcase, a_sound_machine_is_fit_and_nothing_is_said);
    tcase_add_loop_test(tcase, each_flaw_is_one_finding_of_its_kind, 0, CHANGES);
    tcase_add_test(tcase, faults_come_first_and_make_the_answer_no);
    tcase_add_test(tcase, what_is_not_known_is_null);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(machine_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
