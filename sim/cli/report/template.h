/* template.h -- JSON trees from a text that reads like them. */
#ifndef KVT_CLI_REPORT_TEMPLATE_H
#define KVT_CLI_REPORT_TEMPLATE_H

#include <cjson/cJSON.h>
#include <stdio.h>

/* The tree of a JSON text in which ' stands for ", and
 *     %s  for a string (const char *; NULL: null)     %g  for a number (double; not finite: null)
 *     %b  for true or false (int)                     %j  for a tree (cJSON *, which is taken)
 *     %%  for itself
 * NULL where memory is short, or where a tree given for %j is NULL; trees are taken then too. */
cJSON *report_json(const char *text, ...);

/* A tree on one line, numbers as kvt_json_print_number() has them. '<' stands in texts alone and is
 * written as \u003c, so that what is printed can stand in a script element. */
void report_json_print(const cJSON *tree, FILE *stream);

#endif
