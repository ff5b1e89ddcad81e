// Where views are: "#/block/7?page=2". The paths before the # belong to the REST interface.

/** {name, argument, query} of a location's hash. */
export function parseRoute(hash) {
    const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
    const [name, ...rest] = path.split("/");
    return { name, argument: rest.join("/"), query: new URLSearchParams(query) };
}

/** The hash of a route; parameters without a value are left out. */
export function href(path, parameters = {}) {
    const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
    return `#${path}${query.size ? `?${query}` : ""}`;
}
