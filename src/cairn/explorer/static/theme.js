// Light or dark: as the system says, unless the person chose. A classic script in the head, so that nothing flashes.

(() => {
    const KEY = "cairn-theme";
    const root = document.documentElement;
    const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

    const remembered = () => {
        try {
            return localStorage.getItem(KEY);
        } catch {
            return null; // Storage may be forbidden; the choice then lasts as long as the page.
        }
    };
    /** @param {string} theme */
    const remember = (theme) => {
        try {
            localStorage.setItem(KEY, theme);
        } catch {
            // As above.
        }
    };
    const isDark = () => (root.dataset.theme ?? (systemIsDark.matches ? "dark" : "light")) === "dark";

    const chosen = remembered();
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

    document.addEventListener("DOMContentLoaded", () => {
        const button = document.querySelector("#theme");
        if (!button) return;
        const label = () => button.setAttribute("aria-label", isDark() ? "Use the light theme" : "Use the dark theme");
        button.addEventListener("click", () => {
            root.dataset.theme = isDark() ? "light" : "dark";
            remember(root.dataset.theme);
            label();
        });
        systemIsDark.addEventListener("change", label);
        label();
    });
})();
