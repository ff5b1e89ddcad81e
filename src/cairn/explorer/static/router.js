// Shows the view that the address bar asks for, and again when it asks for another.

import { asFailure } from "./api.js";
import { find } from "./dom.js";
import { parseRoute } from "./routes.js";
import { failureView } from "./views/failure.js";

/** @import { Live } from "./live.js" */
/** @import { Route } from "./routes.js" */

/**
 * What a view is made of. `signal` aborts once another view is asked for, and ends everything that the view has
 * started; `again` shows the view again; `headBefore` is the latest height when the view was begun.
 * @typedef {{ route: Route, live: Live, signal: AbortSignal, again: () => unknown, headBefore: bigint }} Context
 *
 * @typedef {{ title: string, content: HTMLElement }} Shown
 * @typedef {(context: Context) => Promise<Shown>} View
 */

export class Router {
    #outlet;
    #views;
    #live;
    #onShown;
    /** @type {AbortController | null} */
    #current = null;
    /**
     * Where the focus was when the person asked for a view that is not there yet.
     * @type {Element | null}
     */
    #askedAt = null;

    /** @param {{ outlet: HTMLElement, views: Record<string, View>, live: Live, onShown: (route: Route) => void }} options */
    constructor({ outlet, views, live, onShown }) {
        this.#outlet = outlet;
        this.#views = views;
        this.#live = live;
        this.#onShown = onShown;
    }

    /** Call it before the first view is shown, or a person may go to another that nobody shows. */
    listen() {
        window.addEventListener("hashchange", () => this.show());
        // The blocks that a view was about may not exist any more.
        this.#live.on("reset", () => this.show({ isAgain: true }));
    }

    /**
     * The old view stays until the new one is complete: nothing flickers and nothing jumps. One that is shown again, when
     * nobody asked for it, leaves the focus where it is.
     */
    async show({ isAgain = false } = {}) {
        this.#current?.abort();
        const current = new AbortController();
        this.#current = current;
        if (!isAgain) this.#askedAt = document.activeElement ?? document.body;
        const route = parseRoute(location.hash);
        this.#outlet.setAttribute("aria-busy", "true");
        const view = await this.#render(route, current.signal);
        if (current.signal.aborted) return;
        // Also for one that is shown again in place of one that was asked for, and never came.
        const [wasAsked, takesFocus] = [this.#askedAt !== null, this.#takesFocus()];
        this.#askedAt = null;
        this.#outlet.removeAttribute("aria-busy");
        this.#outlet.replaceChildren(view.content);
        document.title = `${view.title} · Cairn`;
        this.#onShown(route);
        if (takesFocus) this.#focusHeading();
        if (wasAsked) window.scrollTo(0, 0);
    }

    /**
     * Whether the focus goes to the new heading: from the old one, and from where the person asked for the view. Whoever
     * has gone elsewhere since, such as to the search field, stays there.
     */
    #takesFocus() {
        const { activeElement, body } = document;
        if (activeElement === this.#outlet.querySelector("h1")) return true;
        if (this.#askedAt === null) return false;
        return activeElement === this.#askedAt || activeElement === body || this.#outlet.contains(activeElement);
    }

    /** As a page load would: screen readers then say where the person has come. */
    #focusHeading() {
        const heading = find(this.#outlet, "h1", HTMLElement);
        heading.tabIndex = -1;
        heading.focus({ preventScroll: true });
    }

    /**
     * @param {Route} route
     * @param {AbortSignal} signal
     */
    async #render(route, signal) {
        const again = () => this.show({ isAgain: true });
        const context = { route, live: this.#live, signal, again, headBefore: this.#live.head };
        try {
            return await (this.#views[route.name] ?? this.#views.missing)(context);
        } catch (failure) {
            return failureView(asFailure(failure), context);
        }
    }
}
