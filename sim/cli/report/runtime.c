/* runtime.c -- the files of runtime.py as constants; KVT_REPORT_RUNTIME is the folder they are in.
 */
#include "runtime.h"

#define EMBED(name, file)                                                                          \
    __asm__(".section .rodata\n"                                                                   \
            ".global " #name "\n"                                                                  \
            ".type " #name ", %object\n" #name ":\n"                                               \
            ".incbin \"" KVT_REPORT_RUNTIME "/" file "\"\n"                                        \
            ".byte 0\n"                                                                            \
            ".size " #name ", . - " #name "\n"                                                     \
            ".previous\n")

EMBED(report_library_js, "library.js");
EMBED(report_page_js, "page.js");
EMBED(report_figures_js, "figures.js");
EMBED(report_page_css, "page.css");
EMBED(report_policy, "policy.txt");
EMBED(report_licences, "licences.txt");
