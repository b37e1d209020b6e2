// duckdb.mjs -- runs the SQL of its argument, as `duckdb -csv` would print it.
import { DuckDBInstance } from "@duckdb/node-api";

const connection = await (await DuckDBInstance.create()).connect();
const reader = await connection.runAndReadAll(process.argv[2]);
console.log(reader.columnNames().join(","));
for (const row of reader.getRows()) console.log(row.map((value) => (value === null ? "" : String(value))).join(","));
