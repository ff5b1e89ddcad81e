// What a person overlooks in the explorer's code, beyond what the types show (tsconfig.json).

import js from "@eslint/js";

export default [
    js.configs.recommended,
    {
        linterOptions: { reportUnusedDisableDirectives: "error" },
        rules: {
            // The type checker knows every name, also those of the browser.
            "no-undef": "off",
            "array-callback-return": "error",
            "consistent-return": "error",
            eqeqeq: "error",
            "no-constructor-return": "error",
            "no-else-return": "error",
            "no-implicit-coercion": "error",
            "no-implicit-globals": "error",
            "no-promise-executor-return": "error",
            "no-self-compare": "error",
            "no-shadow": "error",
            "no-template-curly-in-string": "error",
            "no-throw-literal": "error",
            "no-unmodified-loop-condition": "error",
            "no-unreachable-loop": "error",
            "no-use-before-define": ["error", { functions: false, variables: false }],
            "no-unused-vars": ["error", { ignoreRestSiblings: true }],
            "no-useless-assignment": "error",
            "no-var": "error",
            "prefer-const": "error",
        },
    },
    { files: ["**/theme.js"], languageOptions: { sourceType: "script" } },
];
