// draw.js -- from a chart of a page's JSON to a Vega view, the same in a browser and under node.
//
// A chart has columns, rows and a Vega-Lite specification without data, width and colours: those
// are given here, by the place where it is drawn.
(function () {
    "use strict";

    // After M. Okabe and K. Ito, "Color Universal Design", 2008: the first seven can be told apart
    // by people who see two primary colours; what lines and marks differ in besides stands in the
    // specification. In a page the colours are its style sheet's, so that they follow its theme.
    const PAPER = {
        colors: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#707070",
            "#8c564b", "#b8a800", "#5e3c99", "#1b6e63", "#999933"],
        ink: "#1a1a1a", soft: "#555555", edge: "#dddddd", back: "#ffffff",
        font: "Helvetica, Arial, 'Liberation Sans', sans-serif"
    };
    const PAGE = {
        colors: PAPER.colors.map((_, i) => "var(--c" + i + ")"),
        ink: "var(--ink)", soft: "var(--soft)", edge: "var(--edge)", back: "var(--back)",
        font: "system-ui, sans-serif"
    };

    const FONT_SIZE = 11;
    const CATEGORY_SHARE = 0.36; // of the width, for names beside an axis

    function textWidth(text, font) {
        return vega.textMetrics.width({ font: font, fontSize: FONT_SIZE }, text);
    }

    // Names beside marks in as many columns as there is room for; a longer name is cut.
    function legendOf(chart, width, font) {
        const names = chart.names || [];
        const room = width - (chart.columns[2].text ? CATEGORY_SHARE * width : 60);
        const symbol = 40;
        const widest = Math.max(0, ...names.map((name) => textWidth(name, font)));
        const columns = Math.max(1, Math.floor(room / (widest + symbol)));
        return { columns: Math.min(columns, names.length || 1), labelLimit: room - symbol };
    }

    // Names that have no room lose their middle: they often differ at their ends alone.
    function shortened(room, font) {
        const letters = Math.max(8, Math.floor(room / textWidth("n", font)));
        const half = Math.floor(letters / 2) - 1;
        return "length(datum.label) > " + letters + " ? slice(datum.label, 0, " + half +
            ") + '\u2026' + slice(datum.label, " + (-half) + ") : datum.label";
    }

    function configOf(chart, width, theme) {
        return {
            background: theme === PAPER ? PAPER.back : "transparent",
            font: theme.font,
            padding: 2,
            view: { stroke: null },
            mark: { aria: false },
            range: { category: theme.colors },
            axis: {
                labelColor: theme.soft, titleColor: theme.soft, domainColor: theme.soft,
                tickColor: theme.soft, gridColor: theme.edge, labelFontSize: FONT_SIZE,
                titleFontSize: FONT_SIZE, titleFontWeight: "normal", titlePadding: 8,
                labelOverlap: true, labelSeparation: 6, labelFlush: false,
                tickCount: 5
            },
            axisX: { grid: false },
            axisBand: { domain: false, ticks: false, labelColor: theme.ink,
                labelExpr: shortened(CATEGORY_SHARE * width, theme.font),
                labelLimit: Math.round(CATEGORY_SHARE * width), gridDash: [1, 3] },
            legend: Object.assign({
                orient: "top", title: null, labelColor: theme.ink, labelFontSize: FONT_SIZE,
                symbolStrokeWidth: 2, columnPadding: 16, rowPadding: 3, offset: 16
            }, legendOf(chart, width, theme.font)),
            style: { edge: { fill: theme.back, stroke: theme.back },
                aside: { color: theme.soft, fill: theme.soft, stroke: theme.soft },
                asideText: { fill: theme.soft, fontSize: FONT_SIZE - 1 } },
            text: { color: theme.ink, fontSize: FONT_SIZE },
            rule: { color: theme.soft }
        };
    }

    function rowsOf(chart) {
        return chart.rows.map((row) => {
            const object = {};
            chart.columns.forEach((column, i) => { object[column.name] = row[i]; });
            return object;
        });
    }

    // On paper nothing is pointed at: what only answers a pointer is left out.
    function still(spec) {
        const layers = spec.layer.filter((layer) => !layer.encoding.opacity ||
            !layer.encoding.opacity.condition);
        return Object.assign({}, spec, { layer: layers.map((layer) => {
            const kept = Object.assign({}, layer, { encoding: Object.assign({}, layer.encoding) });
            delete kept.params;
            delete kept.encoding.tooltip;
            return kept;
        }) });
    }

    // A whole Vega-Lite specification; width is what all of the chart may take.
    function specOf(chart, width, theme) {
        return Object.assign({
            $schema: "https://vega.github.io/schema/vega-lite/v6.json",
            description: chart.title,
            width: width,
            autosize: { type: "fit-x", contains: "padding" },
            config: configOf(chart, width, theme),
            data: { values: rowsOf(chart) }
        }, theme === PAPER ? still(chart.spec) : chart.spec);
    }

    function refuse() {
        return Promise.reject(new Error("a report's data are in the report"));
    }

    // Where the nearest mark answers the pointer, Vega-Lite 6 looks for a tooltip's names in the
    // cell around the mark, and for its numbers in the mark itself, which has both.
    function mendTips(compiled) {
        for (const mark of compiled.marks) {
            const tip = /_voronoi$/.test(mark.name) && mark.encode.update.tooltip;
            if (tip)
                tip.signal = tip.signal.replace(/(?<!\.)\bdatum\[/g, "datum.datum[");
        }
        return compiled;
    }

    // Expressions are interpreted: nothing is ever evaluated as a script.
    function viewOf(spec, options) {
        const compiled = mendTips(
            vegaLite.compile(spec, { logger: vega.logger(vega.Error) }).spec);
        return new vega.View(vega.parse(compiled, null, { ast: true }), Object.assign({
            expr: expressionInterpreter, logLevel: vega.Error,
            loader: { load: refuse, sanitize: refuse, http: refuse, file: refuse }
        }, options));
    }

    function field(value) {
        if (value === null || value === undefined)
            return "";
        const text = String(value);
        return /[",\r\n]/.test(text) ? "\"" + text.replace(/"/g, "\"\"") + "\"" : text;
    }

    // As RFC 4180 has it, under the columns' names.
    function csvOf(table) {
        const head = table.columns.map((column) => column.name);
        return [head].concat(table.rows).map((row) => row.map(field).join(",") + "\n").join("");
    }

    globalThis.kvtide = { PAPER: PAPER, PAGE: PAGE, specOf: specOf, viewOf: viewOf, csvOf: csvOf };
})();
