/* traces.h -- trace files for tests: all that one gives, or why it is refused, as text. */
#ifndef KVT_TESTS_TRACES_H
#define KVT_TESTS_TRACES_H

#include "kvt/workload.h"
#include "support.h"

#define TRACES_DATA KVT_TEST_ROOT "/tests/unit/data/traces/"

/* The fixture: an empty folder, and the path of a file "t" in it, for a test to write. */
void traces_folder_make(void);
void traces_folder_remove(void);
const struct support_folder *traces_folder(void);
const char *traces_path(void);

/* The format found out, the whole file, at its own rate. */
struct kvt_trace_options traces_options(const char *file);

/* A file that is refused ends the test. */
struct kvt_trace *traces_opened(const struct kvt_trace_options *options);
/* False behind the last request. */
bool traces_next(struct kvt_trace *trace, struct kvt_request_spec *spec);

/* All requests, each "ns:input/output" with what else it carries, "; " between; and the
 * account, which must cover every row. The text lasts until the next call. */
const char *traces_requests_with(const struct kvt_trace_options *options,
                                 struct kvt_trace_account *account);
const char *traces_requests_of(const char *file, struct kvt_trace_account *account);
const char *traces_requests_of_bytes(const char *bytes, size_t byte_count,
                                     struct kvt_trace_account *account);

/* "STATUS where: message" of a file that must be refused; the folder's name left out. The
 * text lasts until the next call. */
const char *traces_refusal_with(const struct kvt_trace_options *options);
const char *traces_refusal_of(const char *bytes, size_t byte_count);

void traces_assert_holds(const char *text, const char *part);

#endif
