// figures.js -- under node: each chart of globalThis.kvtideCharts as SVG, with its Vega-Lite
// specification and its data as CSV, as one JSON array on standard output.
(async function () {
    "use strict";

    // Of a chart on paper, with its axes and legend.
    const WIDTH = 520;

    // Widths of Helvetica's characters 32 to 126, thousandths of the font's size, from Adobe's
    // font metrics: there is no canvas here to measure on, and Arial and Liberation Sans are alike.
    // Where only DejaVu Sans is there, texts are up to 15 % wider; they are given the room.
    const WIDER = 1.15;
    const WIDTHS = [
        278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
        556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
        1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
        667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
        333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
        556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584];

    vega.textMetrics.width = function (item, text) {
        let sum = 0;
        for (const character of String(text === null || text === undefined ? "" : text))
            sum += WIDTHS[character.codePointAt(0) - 32] || 600;
        return sum * (item.fontSize || 11) / 1000 * WIDER;
    };

    const made = [];
    for (const chart of globalThis.kvtideCharts) {
        const spec = kvtide.specOf(chart, WIDTH, kvtide.PAPER);
        const svg = await kvtide.viewOf(spec, { renderer: "none" }).toSVG();
        made.push({ id: chart.id, svg: svg + "\n", csv: kvtide.csvOf(chart),
            spec: JSON.stringify(spec, null, 2) + "\n" });
    }
    process.stdout.write(JSON.stringify(made));
})().catch((error) => {
    process.stderr.write(error.message + "\n");
    process.exitCode = 1;
});
