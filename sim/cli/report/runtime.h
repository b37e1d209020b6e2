/* runtime.h -- what draws the charts of a report, embedded in the program (runtime.py makes it). */
#ifndef KVT_CLI_RUNTIME_H
#define KVT_CLI_RUNTIME_H

/* Texts of the program's life. */
extern const char report_library_js[]; /* Vega, Vega-Lite, its interpreter, draw.js */
extern const char report_page_js[];    /* in a browser, behind the library */
extern const char report_figures_js[]; /* under node, behind the library */
extern const char report_page_css[];
extern const char report_policy[];   /* the Content-Security-Policy of a page of these scripts */
extern const char report_licences[]; /* of everything in the library that is not ours */

#endif
