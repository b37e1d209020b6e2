// page.js -- a page's charts, their tooltips, and the tables of their data.
(function () {
    "use strict";

    const page = JSON.parse(document.getElementById("page").textContent);
    const blocks = new Map();
    for (const section of page.sections) {
        for (const block of section.blocks) {
            if (block.id)
                blocks.set(block.id, block);
        }
    }

    function element(name, text) {
        const made = document.createElement(name);
        if (text !== undefined)
            made.textContent = text;
        return made;
    }

    // --- Tooltips: text only, whatever a name holds ---------------------------------------------

    const tip = element("div");
    tip.id = "tip";
    tip.hidden = true;
    document.body.append(tip);

    function showTip(handler, event, item, value) {
        tip.hidden = value === null || value === undefined || value === "";
        if (tip.hidden)
            return;
        tip.replaceChildren();
        if (typeof value === "object") {
            for (const key of Object.keys(value)) {
                const line = element("div");
                line.append(element("span", key), element("b", String(value[key])));
                tip.append(line);
            }
        } else {
            tip.textContent = String(value);
        }
        const right = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 6);
        const above = event.clientY + 18 + tip.offsetHeight > innerHeight;
        tip.style.left = Math.max(6, right) + "px";
        tip.style.top = (above ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18) + "px";
    }

    // --- Charts -----------------------------------------------------------------------------------

    const drawn = new Map(); // of a plot: its view, and the width that it was drawn for

    async function draw(plot) {
        const width = Math.floor(plot.clientWidth);
        const last = drawn.get(plot);
        if (width <= 0 || (last && last.width === width))
            return;
        drawn.set(plot, { width: width, view: null });
        try {
            const chart = blocks.get(plot.dataset.chart);
            const view = kvtide.viewOf(kvtide.specOf(chart, width, kvtide.PAGE),
                { renderer: "svg", container: plot, hover: true, tooltip: showTip });
            await view.runAsync();
            if (last && last.view)
                last.view.finalize();
            drawn.get(plot).view = view;
            plot.dataset.drawn = "yes";
        } catch (error) {
            plot.textContent = "This chart could not be drawn: " + error.message;
            plot.dataset.drawn = "no";
        }
    }

    const widths = new ResizeObserver((entries) => {
        for (const entry of entries)
            draw(entry.target);
    });
    for (const plot of document.querySelectorAll("[data-chart]"))
        widths.observe(plot);

    // --- Data -------------------------------------------------------------------------------------

    const ROWS_SHOWN = 1000;

    function save(block) {
        const link = element("a");
        link.href = URL.createObjectURL(new Blob([kvtide.csvOf(block)], { type: "text/csv" }));
        link.download = block.id + ".csv";
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    }

    function cell(column, value) {
        const made = element("td", value === null ? "-" : column.text ? value :
            Number(Number(value).toPrecision(6)).toString());
        if (!column.text)
            made.className = "number";
        return made;
    }

    function tableOf(block) {
        const table = element("table"), head = element("tr"), body = element("tbody");
        for (const column of block.columns) {
            const title = element("th", column.title);
            title.className = column.text ? "" : "number";
            head.append(title);
        }
        for (const row of block.rows.slice(0, ROWS_SHOWN)) {
            const line = element("tr");
            row.forEach((value, i) => line.append(cell(block.columns[i], value)));
            body.append(line);
        }
        const top = element("thead");
        top.append(head);
        table.append(top, body);
        return table;
    }

    for (const data of document.querySelectorAll("details[data-of]")) {
        data.addEventListener("toggle", () => {
            const place = data.querySelector(".rows"), block = blocks.get(data.dataset.of);
            if (!data.open || place.firstChild)
                return;
            place.append(tableOf(block));
            if (block.rows.length > ROWS_SHOWN)
                place.append(element("p", "The first " + ROWS_SHOWN + " of " + block.rows.length +
                    " rows; the file has all."));
        });
    }
    for (const button of document.querySelectorAll("button[data-save]")) {
        button.hidden = false;
        button.addEventListener("click", () => save(blocks.get(button.dataset.save)));
    }
})();
