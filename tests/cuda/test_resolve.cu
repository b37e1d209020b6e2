/* test_resolve.cu -- the resolver's kernels against kvt_resolve(), call by call. */
#include <unistd.h>

#include <cstring>
#include <string>

#include "cuda/resolve_world.cuh"
#include "kvt/hash.h"

using namespace resolve_test;

static setting base(const char *name)
{
    setting s = {};
    s.name = name;
    s.lanes = 6;
    s.requests = 5;
    s.top_k = 512;
    s.slots_max = 1024;
    s.rows_max = 6000;
    s.ratio = 1;
    s.queries_max = 1;
    s.layers = 1;
    s.layer_bytes = 48;
    s.churn_percent = 20;
    s.calls = 24;
    return s;
}

/* Sizes and kinds of calls, each by the fast kernel and by the plain one. */
static std::vector<setting> random_settings()
{
    std::vector<setting> all;
    const uint32_t queries[] = {1, 2, 4, 8, 32};
    const uint32_t covers[] = {0, 50, 100};

    for (uint32_t k : queries) {
        for (uint32_t cover : covers) {
            setting s = base("small");
            s.queries_max = k;
            s.cover_percent = cover;
            s.promote = cover == 0;
            s.without = true;
            s.slots_differ = true;
            s.ratio = cover == 50 ? 2 : 1;
            all.push_back(s);
        }
        setting tight = base("fewer slots than rows of a query");
        tight.top_k = 500; /* neither a power of two nor of whole warps */
        tight.slots_max = 333;
        tight.rows_max = 2000;
        tight.queries_max = k;
        tight.promote = true;
        all.push_back(tight);
        setting odd = base("odd");
        odd.top_k = 77;
        odd.slots_max = 131;
        odd.rows_max = 777;
        odd.queries_max = k;
        odd.cover_percent = 20;
        odd.promote = true;
        odd.slots_differ = true;
        all.push_back(odd);
        setting waves = base("waves");
        waves.slots_max = 512;
        waves.queries_max = k;
        waves.waves = true;
        waves.promote = k % 3 != 1;
        waves.churn_percent = 40;
        waves.lanes = 40;
        waves.requests = 37;
        waves.rows_max = 3000;
        all.push_back(waves);
        setting large = base("large");
        large.top_k = 2048;
        large.slots_max = 4096;
        large.rows_max = 102400;
        large.queries_max = k;
        large.lanes = 2;
        large.requests = 2;
        large.layer_bytes = 16;
        large.calls = 12;
        all.push_back(large);
        large.slots_max = 16384;
        large.cover_percent = 30;
        large.promote = true;
        large.name = "large, 16,384 slots";
        all.push_back(large);
        setting longest = large; /* more rows than the narrow words of resolve_many.cu take */
        longest.slots_max = 4096;
        longest.rows_max = 1000000;
        longest.lanes = longest.requests = 1;
        longest.calls = 4;
        longest.name = "a context of 1 M rows";
        all.push_back(longest);
        large.slots_max = 8192;
        large.cover_percent = 0;
        large.name = "large, 8,192 slots";
        all.push_back(large);
    }
    return all;
}

/* Row formats and layouts of host rows. */
static std::vector<setting> copy_settings()
{
    std::vector<setting> all;
    const uint32_t bytes[] = {576, 288, 656, 1152};

    for (uint32_t layer_bytes : bytes) {
        for (uint32_t layers = 1; layers <= 4; layers += 3) {
            setting s = base("copies");
            s.queries_max = layers == 1 ? 1 : 4;
            s.layers = layers;
            s.layer_bytes = layer_bytes;
            s.promote = true;
            s.calls = 8;
            all.push_back(s); /* few requests: the copy is a kernel of its own */
            s.lanes = 10;
            s.requests = 9;
            all.push_back(s);
            s.planned = true;
            all.push_back(s);
            s.planned = false;
            s.leader = layers > 1;
            s.apart = layers > 1;
            s.waves = true;
            s.slots_max = 400;
            all.push_back(s);
            s.planned = true;
            all.push_back(s);
        }
    }
    return all;
}

static void run(setting of, bool reference, uint64_t seed, device::tally &tally)
{
    of.reference = reference;
    world world(of, seed);
    for (uint32_t i = 0; i < of.calls; i++) {
        if (!world.step(tally)) {
            std::printf("  (%s, %s, K %u, cover %u, seed %llu: ended at call %u)\n", of.name,
                        reference ? "plain" : "fast", of.queries_max, of.cover_percent,
                        (unsigned long long)seed, i);
            return;
        }
    }
}

/* ---- Golden call vectors (docs/resolver.md) ---------------------------------------------------
 */

struct golden_file {
    std::vector<std::string> lines;
    size_t at = 0;

    explicit golden_file(const std::string &path)
    {
        std::FILE *file = std::fopen(path.c_str(), "r");
        static char line[1 << 16];
        while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
            line[std::strcspn(line, "\n")] = '\0';
            lines.push_back(line);
        }
        if (file != nullptr)
            std::fclose(file);
    }
    /* The next line's rest behind the word; NULL where another word stands. */
    const char *take(const char *word)
    {
        if (at >= lines.size() || lines[at].rfind(word, 0) != 0)
            return nullptr;
        return lines[at++].c_str() + std::strlen(word);
    }
    uint32_t number(const char *word)
    {
        const char *rest = take(word);
        return rest != nullptr ? (uint32_t)std::strtoul(rest, nullptr, 10) : 0;
    }
};

static drawn_call golden_call(golden_file &file, const setting &of)
{
    drawn_call call = {};
    uint32_t tail;

    (void)file.take("");
    (void)file.number("call ");
    (void)file.number("visible ");
    tail = file.number("tail ");
    call.page_rows.assign(of.rows_max / 64 + 2, 0);
    const char *pages = file.take("pages");
    char *end;
    while (pages != nullptr && *pages != '\0') {
        const uint32_t first = (uint32_t)std::strtoul(pages, &end, 10);
        const uint32_t count = (uint32_t)std::strtoul(end + 1, &end, 10);
        for (uint32_t row = first; row < first + count; row++)
            call.page_rows[row / 64] |= UINT64_C(1) << row % 64;
        pages = end;
    }
    for (const char *query; (query = file.take("query")) != nullptr;) {
        std::vector<int32_t> rows;
        int32_t row = 0;
        while (*query != '\0') {
            row += (int32_t)std::strtol(query, &end, 10);
            rows.push_back(row);
            query = end;
        }
        call.selections.push_back(rows);
    }
    call.queries = (uint32_t)call.selections.size();
    /* A context whose tail begins where the call's does, in rows of 64 tokens. */
    call.context_tokens = (tail > 0 ? tail + 64 : 0) * of.ratio;
    call.frame_count = of.rows_max;
    return call;
}

static uint64_t chain_of(uint64_t chain, uint64_t state, const struct kvt_gpu_counts &c)
{
    const uint64_t values[] = {
        state,           c.union_rows,   c.tail_rows,      c.page_rows, c.hot_rows,
        c.filled_rows,   c.staged_rows,  c.promoted_rows,  c.selected,  c.tail_selected,
        c.page_selected, c.hot_selected, c.missed_selected};
    for (uint64_t value : values)
        chain = kvt_chain64(chain, value);
    return chain;
}

static void golden(const std::string &folder, const char *name, bool reference, uint32_t calls_max,
                   device::tally &tally)
{
    golden_file file(folder + "/" + name + ".txt");
    setting of = base(name);

    if (!tally.check(file.take("kvtide resolver calls 1") != nullptr, "%s/%s.txt: not there",
                     folder.c_str(), name))
        return;
    of.slots_max = file.number("slots ");
    of.top_k = file.number("top_k ");
    of.rows_max = file.number("rows_max ");
    (void)file.take("policy lru");
    of.promote = std::strcmp(file.take("promotion "), "by_count") == 0;
    of.calls = std::min(calls_max, file.number("calls "));
    of.lanes = of.requests = 1;
    of.ratio = 64; /* a page is one row, so that any rows can be resident by page */
    of.queries_max = 8;
    of.reference = reference;
    world world(of, 1);
    uint64_t chain = 0;
    for (uint32_t i = 0; i < of.calls; i++) {
        std::vector<drawn_call> calls = {golden_call(file, of)};
        world.set_frames(calls[0]);
        if (!world.run(calls, tally))
            return;
        while (file.at < file.lines.size() && file.lines[file.at].rfind("state ", 0) != 0)
            file.at++;
        const uint64_t state = std::strtoull(file.take("state "), nullptr, 16);
        const uint64_t expected = std::strtoull(file.take("chain "), nullptr, 16);
        chain = chain_of(chain, world.last_hash(), world.last_counts());
        tally.check(world.last_hash() == state, "%s: call %u: state %016llx is %016llx", name, i,
                    (unsigned long long)state, (unsigned long long)world.last_hash());
        if (!tally.check(chain == expected, "%s: call %u: chain %016llx is %016llx", name, i,
                         (unsigned long long)expected, (unsigned long long)chain))
            return;
    }
}

/* ---- Refusals ------------------------------------------------------------------------------- */

/* Nothing is launched, so that no pointer is followed. */
static void refusals(device::tally &tally)
{
    struct kvt_gpu_resolve sound = {};
    sound.request_count = sound.queries_max = sound.top_k = sound.missed_stride = sound.ratio = 1;
    sound.layers = 1;
    sound.layer_bytes = 16;
    struct kvt_gpu_resolve wrong = sound;
    wrong.ratio = 3;
    tally.check(kvt_gpu_resolve(&wrong, 0) == cudaErrorInvalidValue, "a ratio of 3 was taken");
    wrong.ratio = 128;
    tally.check(kvt_gpu_resolve(&wrong, 0) == cudaErrorInvalidValue, "a ratio of 128 was taken");
    wrong = sound;
    wrong.queries_max = KVT_GPU_QUERIES_MAX + 1;
    wrong.missed_stride = wrong.queries_max;
    tally.check(kvt_gpu_resolve(&wrong, 0) == cudaErrorInvalidValue, "33 queries were taken");
    wrong = sound;
    wrong.top_k = 2;
    tally.check(kvt_gpu_resolve(&wrong, 0) == cudaErrorInvalidValue,
                "miss lists shorter than the selections were taken");
    wrong = sound;
    wrong.layer_bytes = 24;
    tally.check(kvt_gpu_fetch_wave(&wrong, 0, 0) == cudaErrorInvalidValue,
                "layers of 24 bytes were taken");
    wrong = sound;
    wrong.staging_share = 1;
    tally.check(kvt_gpu_waves(&wrong, 1, nullptr, 0) == cudaErrorInvalidValue,
                "waves were made of staging that is not shared");
    wrong = sound;
    wrong.request_count = 0;
    tally.check(kvt_gpu_resolve(&wrong, 0) == cudaSuccess, "no requests were not taken");
}

/* Golden calls: of this checkout, or of the tarball whose folder this is. */
static std::string golden_folder()
{
    const char *const folders[] = {"tests/golden/calls", "share/kvt/calls"};

    return access(folders[0], F_OK) == 0 ? folders[0] : folders[1];
}

/* test_resolve [small: a few calls, for a checker of memory or of races] */
int main(int argc, char **argv)
{
    device::tally tally;
    const std::string folder = golden_folder();
    const bool small = argc > 1 && std::strcmp(argv[1], "small") == 0;
    std::vector<setting> settings = random_settings();

    device::require();
    refusals(tally);
    for (const setting &of : copy_settings())
        settings.push_back(of);
    for (int reference = 0; reference < 2; reference++) {
        for (const char *name :
             {"k16-b16-by-count", "k16-b64", "k64-b128-pages", "k64-b96-by-count", "k512-b1024"})
            golden(folder, name, reference, small ? 4 : UINT32_MAX, tally);
        for (size_t i = 0; i < settings.size(); i += small ? 5 : 1) {
            setting of = settings[i];
            if (small && of.rows_max > 10000)
                continue;
            if (small) {
                of.lanes = std::min(of.lanes, 3u);
                of.requests = std::min(of.requests, 2u);
                of.calls = 1;
            }
            run(of, reference, i + 1, tally);
        }
    }
    return tally.close();
}
