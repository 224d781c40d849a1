import { render } from "preact";
import "./style/base.css";
import "./style/shell.css";
import "./style/list.css";
import "./style/problem.css";
import "./style/result.css";
import "./style/plot.css";
import "./style/community.css";
import "./theme";
import { App } from "./app";
import * as keys from "./keys";
import * as me from "./me";
import * as route from "./route";

me.listen();
route.listen();
keys.listen();
const root = document.getElementById("app");
if (root !== null) render(<App />, root);
