/* kvt/file.h -- files that appear whole or not at all, and lines of any length. */
#ifndef KVT_FILE_H
#define KVT_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "kvt/error.h"

KVT_BEGIN_DECLS

/* Opens an ordinary file for reading: folders, pipes and devices are refused, and none is waited
 * for. *out is the caller's to fclose(). */
KVT_CHECKED kvt_status kvt_file_open(const char *path, FILE **out, struct kvt_error *err);

/* Do both paths lead to one file that exists? */
bool kvt_file_is_same(const char *path, const char *other);

/* Reads a whole file, at most max_bytes; *out is NUL-terminated and the
 * caller's to free(). */
KVT_CHECKED kvt_status kvt_file_read(const char *path, size_t max_bytes, char **out,
                                     size_t *out_bytes, struct kvt_error *err);

/* A file being written: a temporary beside the target, renamed onto it by
 * commit. Every write is checked; the first failure is kept and commit reports
 * it (KVT_ERR_SYSTEM) and removes the temporary. Not committed: nothing appears. */
struct kvt_outfile;
KVT_CHECKED kvt_status kvt_outfile_open(const char *path, struct kvt_outfile **out,
                                        struct kvt_error *err);
FILE *kvt_outfile_stream(struct kvt_outfile *file); /* borrowed; never NULL */
/* Writes out what is buffered; fails as commit would. */
KVT_CHECKED kvt_status kvt_outfile_flush(struct kvt_outfile *file, struct kvt_error *err);
/* Where it lies until then, for who reads back what he has flushed; borrowed. */
const char *kvt_outfile_temporary(const struct kvt_outfile *file);
KVT_CHECKED kvt_status kvt_outfile_commit(struct kvt_outfile *file,
                                          struct kvt_error *err); /* frees */
void kvt_outfile_discard(struct kvt_outfile *file);               /* frees; takes NULL */

/* mkdir -p; an existing folder is fine. KVT_ERR_SYSTEM where the system refuses. */
KVT_CHECKED kvt_status kvt_mkdirs(const char *path, struct kvt_error *err);

/* Lines of a file, one at a time, of any length up to 64 MiB. Takes LF and CRLF,
 * a missing final line end, and a UTF-8 byte-order mark at the start. A NUL
 * byte, a lone CR or a longer line is KVT_ERR_PARSE with its line number. */
struct kvt_lines;
KVT_CHECKED kvt_status kvt_lines_open(const char *path, struct kvt_lines **out,
                                      struct kvt_error *err);
void kvt_lines_close(struct kvt_lines *lines);
/* *text is borrowed until the next call, NUL-terminated, without its line end;
 * NULL at the end of the file. */
KVT_CHECKED kvt_status kvt_lines_next(struct kvt_lines *lines, char **text, size_t *text_bytes,
                                      struct kvt_error *err);
uint64_t kvt_lines_number(const struct kvt_lines *lines); /* of the line last returned; 1-based */
/* Whether the line last returned ended in a line feed: only a file's last one may not. */
bool kvt_lines_is_ended(const struct kvt_lines *lines);

/* RFC 4180 fields by libcsv (strict), streaming: quoted fields may contain
 * separators and line ends. Refuses what kvt_lines refuses. */
struct kvt_csv;
KVT_CHECKED kvt_status kvt_csv_open(const char *path, struct kvt_csv **out, struct kvt_error *err);
void kvt_csv_close(struct kvt_csv *csv);
/* The next row with at least one non-blank field; *fields is NULL at the end.
 * Borrowed until the next call. Blanks around unquoted fields are trimmed. */
KVT_CHECKED kvt_status kvt_csv_next(struct kvt_csv *csv, char ***fields, size_t *field_count,
                                    struct kvt_error *err);
/* A field of its own making, quoted where RFC 4180 wants it. */
void kvt_csv_put(FILE *stream, const char *text);
uint64_t kvt_csv_line(const struct kvt_csv *csv); /* where the row last returned begins */

/* Text to numbers, strictly: the whole text, decimal, no sign for counts, no
 * NaN, Inf or hexadecimal. "133", "133.0" and "1e3" are counts; "13.7" is not.
 * `where` is the place for the message ("trace.csv:17:3"). */
KVT_CHECKED kvt_status kvt_text_count(const char *text, const char *where, uint64_t maximum,
                                      uint64_t *out, struct kvt_error *err);
KVT_CHECKED kvt_status kvt_text_real(const char *text, const char *where, double minimum,
                                     double maximum, double *out, struct kvt_error *err);

KVT_END_DECLS
#endif
