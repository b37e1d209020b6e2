/* chart_page.c -- the frame of a page of charts: whole in itself, light and dark, for screens and
 * for paper. */
#include "chart.h"

static const char style[] =
    "<style>\n"
    ":root{--ink:#1a1a1a;--soft:#666;--back:#fff;--edge:#ddd;--good:#0a7d38;--bad:#b3261e}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--soft:#9a9a9a;--back:#161616;"
    "--edge:#3a3a3a;--good:#5ccb86;--bad:#ff8a80}}\n"
    "body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--back);"
    "max-width:1180px;margin:0 auto;padding:16px}\n"
    "table{border-collapse:collapse;font-size:13px;margin:8px 0}"
    "th,td{border-bottom:1px solid var(--edge);padding:2px 8px;text-align:left;"
    "vertical-align:top}\n"
    ".wide{overflow-x:auto}.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}"
    ".soft{color:var(--soft)}\n"
    ".charts{display:flex;flex-wrap:wrap;gap:16px}.chart{flex:1 1 340px;max-width:480px}\n"
    "h4{margin:8px 0 0;font-size:14px}svg{width:100%;height:auto}"
    ".bars{max-width:720px;display:block}\n"
    ".grid{stroke:var(--edge)}.axis{stroke:var(--soft)}"
    ".tick,.label{font-size:11px;fill:var(--soft)}\n"
    ".line{fill:none;stroke:currentColor;stroke-width:2}.mark{fill:currentColor}"
    ".open{fill:none;stroke:currentColor;stroke-width:2}.fill{fill:currentColor}\n"
    ".legend{margin:0;font-size:12px}.legend>span{margin-right:10px;white-space:nowrap}\n"
    ".dot,.ring{display:inline-block;width:9px;height:9px;border-radius:9px;margin-right:4px;"
    "border:2px solid currentColor}.dot{background:currentColor}\n"
    ".c0{color:#0072b2}.c1{color:#d55e00}.c2{color:#009e73}.c3{color:#cc79a7}"
    ".c4{color:#b8860b}.c5{color:#56b4e9}.c6{color:#7f7f7f}.c7{color:#8c6bb1}"
    ".c8{color:#a65628}.c9{color:#17a2a2}\n"
    "@media print{body{max-width:none}details{display:none}}\n"
    "</style>\n";

void chart_page_begin(FILE *stream, const char *title)
{
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>",
          stream);
    chart_text(stream, title);
    fputs("</title>\n", stream);
    fputs(style, stream);
    fputs("</head><body>\n", stream);
}

void chart_page_end(FILE *stream)
{
    fputs("</body></html>\n", stream);
}
