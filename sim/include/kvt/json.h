/* kvt/json.h -- strict JSON: cJSON's tree behind a grammar check of our own.
 *
 * cJSON accepts `012`, `1e999`, repeated keys and trailing text, and looks keys
 * up without regard to case. Everything here refuses those. Errors name the
 * file, line and column (grammar) or the file and JSON pointer (meaning). */
#ifndef KVT_JSON_H
#define KVT_JSON_H

#include <cjson/cJSON.h>

#include "kvt/arena.h"
#include "kvt/error.h"

KVT_BEGIN_DECLS

/* Parses text[0..text_bytes) as one JSON value. name is the file's name for
 * messages; first_line the number of the text's first line (1 for a whole
 * file, more for a line of a JSON Lines file). A UTF-8 byte-order mark is
 * skipped. Refused: NUL bytes, invalid UTF-8, depth past 64, repeated keys,
 * numbers that are not finite, anything after the value. *out is the caller's
 * to free with cJSON_Delete(). */
KVT_CHECKED kvt_status kvt_json_parse(const char *text, size_t text_bytes, const char *name,
                                      uint64_t first_line, cJSON **out, struct kvt_error *err);

/* The same from a file; refuses files past max_bytes before reading them. */
KVT_CHECKED kvt_status kvt_json_load(const char *path, size_t max_bytes, cJSON **out,
                                     struct kvt_error *err);

/* Python writes a float that is infinite as a bare word, which is no JSON: it becomes the text
 * "inf", in place. -Infinity and NaN stay what they are, and are refused. */
void kvt_json_mend_infinity(char *text);

/* kvt_json_load() of a file that Python may have written: its infinities are mended. */
KVT_CHECKED kvt_status kvt_json_load_mended(const char *path, size_t max_bytes, cJSON **out,
                                            struct kvt_error *err);

/* Member `key` of an object, by exact name; NULL when absent. */
const cJSON *kvt_json_find(const cJSON *object, const char *key);

/* That member's number; `otherwise` where it is absent or no number. */
double kvt_json_number_or(const cJSON *object, const char *key, double otherwise);

/* Typed readers. `where` is the place of `object` ("h200.json#/links"); the
 * error's place is where + "/" + key. A missing key is an error unless
 * `required` is false, in which case *out is left alone. */
KVT_CHECKED kvt_status kvt_json_get_u64(const cJSON *object, const char *where, const char *key,
                                        bool required, uint64_t minimum, uint64_t maximum,
                                        uint64_t *out, struct kvt_error *err);
KVT_CHECKED kvt_status kvt_json_get_f64(const cJSON *object, const char *where, const char *key,
                                        bool required, double minimum, double maximum, double *out,
                                        struct kvt_error *err);
/* Borrowed from the tree. */
KVT_CHECKED kvt_status kvt_json_get_text(const cJSON *object, const char *where, const char *key,
                                         bool required, const char **out, struct kvt_error *err);
/* A text that must be there, as the arena's own. */
KVT_CHECKED kvt_status kvt_json_copy_text(const cJSON *object, const char *where, const char *key,
                                          struct kvt_arena *arena, const char **out,
                                          struct kvt_error *err);
KVT_CHECKED kvt_status kvt_json_get_bool(const cJSON *object, const char *where, const char *key,
                                         bool required, bool *out, struct kvt_error *err);
/* *out is the member, which must be an object (or array); NULL when absent. */
KVT_CHECKED kvt_status kvt_json_get_object(const cJSON *object, const char *where, const char *key,
                                           bool required, const cJSON **out, struct kvt_error *err);
KVT_CHECKED kvt_status kvt_json_get_array(const cJSON *object, const char *where, const char *key,
                                          bool required, const cJSON **out, struct kvt_error *err);

/* Refuses any member whose name is not in keys[0..key_count); the message
 * lists what is known. */
KVT_CHECKED kvt_status kvt_json_check_keys(const cJSON *object, const char *where,
                                           const char *const *keys, size_t key_count,
                                           struct kvt_error *err);

/* The keys of a data file that are not data. */
#define KVT_JSON_HEAD_KEYS "schema", "name", "summary", "sources"

/* What a data file begins with: "schema" of this text, "name" and "summary" that are not
 * empty. */
KVT_CHECKED kvt_status kvt_json_check_head(const cJSON *tree, const char *where, const char *schema,
                                           struct kvt_error *err);

/* "sources": members named after keys of the file ("verify", or "tasks.code" for a member of an
 * object), each saying in words where that comes from; every number has one, of its own or of what
 * holds it, and every one its number. For the end, when the tree is known to hold what it should
 * and nothing else: what is missing is then not the sources' fault. */
KVT_CHECKED kvt_status kvt_json_check_sources(const cJSON *tree, const char *where,
                                              struct kvt_error *err);

/* The same, but that the members of the tree named settings[0..setting_count) need none: they are
 * no facts but what somebody asks for. */
KVT_CHECKED kvt_status kvt_json_check_sources_but(const cJSON *tree, const char *where,
                                                  const char *const *settings, size_t setting_count,
                                                  struct kvt_error *err);

/* Adds a member, which the object owns from here on, and says whether there was memory for it. An
 * item that is NULL, because there was none, is a failure of this call. */
bool kvt_json_add(cJSON *object, const char *key, cJSON *item);
/* null where the value is not finite. */
bool kvt_json_add_number(cJSON *object, const char *key, double value);
/* null where there is no text. */
bool kvt_json_add_text(cJSON *object, const char *key, const char *text);
bool kvt_json_add_bool(cJSON *object, const char *key, bool value);
/* A new object as a member, or as an array's next element; NULL when memory is short. */
cJSON *kvt_json_add_object(cJSON *object, const char *key);
cJSON *kvt_json_add_element(cJSON *array);

/* A whole number in [0, 2^53]: what a count in a JSON file can be. */
bool kvt_json_is_count(const cJSON *item);

/* Numbers as they go into our files: the shortest decimal form that reads back
 * to the same double; counts without a point. Writes into out[32]; a value that
 * is not finite becomes "null". */
void kvt_json_print_number(double value, char out[32]);

/* The whole tree, two blanks of indent, numbers as above, keys in their order.
 * NULL when memory is short; free() it. */
KVT_CHECKED char *kvt_json_print(const cJSON *tree);

KVT_END_DECLS
#endif
