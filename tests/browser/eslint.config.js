// Linter rules for the page's scripts. `no-undef` is off, since the type checker reports undefined names.
import js from "@eslint/js";

export default [
  { ignores: ["**/vendor/"] },
  {
    files: ["**/*.js"],
    languageOptions: { ecmaVersion: 2024, sourceType: "module" },
    rules: {
      ...js.configs.recommended.rules,
      "no-undef": "off",
      "no-control-regex": "off",
      "array-callback-return": "error",
      eqeqeq: "error",
      "no-eval": "error",
      "no-self-compare": "error",
      "no-template-curly-in-string": "error",
      "no-unmodified-loop-condition": "error",
      "no-unused-expressions": ["error", { allowShortCircuit: true, allowTernary: true }],
      "no-var": "error",
      "prefer-const": "error",
    },
  },
];
