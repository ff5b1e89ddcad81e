// Where views are: "#/block/7?page=2". The paths before the # belong to the REST interface.

/** @typedef {Record<string, bigint | number | string | null>} Query */
/** @typedef {{ name: string, argument: string, query: URLSearchParams }} Route */

/**
 * The route that a location's hash names.
 * @param {string} hash
 * @returns {Route}
 */
export function parseRoute(hash) {
    const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
    const [name, ...rest] = path.split("/");
    return { name, argument: rest.join("/"), query: new URLSearchParams(query) };
}

/**
 * Parameters without a value are left out.
 * @param {Query} parameters
 */
export function queryOf(parameters) {
    const given = Object.entries(parameters).filter(([, value]) => value);
    return new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
}

/**
 * The hash of a route.
 * @param {string} path
 * @param {Query} parameters
 */
export function href(path, parameters = {}) {
    const query = queryOf(parameters);
    return `#${path}${query.size ? `?${query}` : ""}`;
}
